// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"net/http"

	"k8s.io/klog/v2"
)

// SetTags replaces the tags of the network with that ID, and returns them.
func (c *Client) SetTags(ctx context.Context, id string, tags Tags) (Tags, error) {
	var answer struct {
		Tags Tags `json:"tags"`
	}
	err := c.send(ctx, http.MethodPut, object{"tags": tags}, &answer, nil, "networks", id, "tags")
	return answer.Tags, wrap("set tags", err)
}

// addTag adds a tag to the network. It succeeds if the network has the tag.
func (c *Client) addTag(ctx context.Context, id, tag string) error {
	return wrap("add tag", c.send(ctx, http.MethodPut, nil, nil, nil, "networks", id, "tags", tag))
}

// removeTag removes a tag from the network. It succeeds if the network does not have the tag, or does
// not exist.
func (c *Client) removeTag(ctx context.Context, id, tag string) error {
	err := wrap("remove tag", c.send(ctx, http.MethodDelete, nil, nil, nil, "networks", id, "tags", tag))
	if ReasonOf(err) == NotFound {
		klog.FromContext(ctx).V(4).Info("The tag was gone already", "networkID", id, "tag", tag)
		return nil
	}
	return err
}

// withoutMarks returns the tags that are not ownership marks.
func (t Tags) withoutMarks() Tags { return t.without(t.importTags()...) }
