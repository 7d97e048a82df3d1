// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// patch returns a kustomization with a JSON patch for the objects of that kind.
func patch(kind, operations string) string {
	return "patches: [{target: {kind: " + kind + "}, patch: '" + operations + "'}]\n"
}

// Each row says which kustomization of artifacts/deploy renders the same as the values.
func TestValuesRenderWhatAKustomizationRenders(t *testing.T) {
	const (
		pod         = "/spec/template/spec"
		container   = pod + "/containers/0"
		environment = "configMapGenerator: [{name: samplecrd-controller-environment, behavior: merge, namespace: samplecrd-system, literals: "
		https       = "components: [ARTIFACTS/deploy/https]\n"
	)
	monitor := string(read(t, artifacts+"/monitoring/servicemonitor.yaml"))
	deletionPolicy := string(read(t, artifacts+"/deploy/admission/deletion-policy.yaml"))
	checker := newConformer(t)
	for _, row := range []struct{ reason, values, kustomization, more string }{
		{"an image of another registry", "image: {repository: example.com/team/controller, tag: v1.2.3, pullPolicy: Always}\nimagePullSecrets: [{name: registry}]",
			"images: [{name: samplecrd-controller, newName: example.com/team/controller, newTag: v1.2.3}]\n" +
				patch("Deployment", `[{op: add, path: `+container+`/imagePullPolicy, value: Always}, {op: add, path: `+pod+`/imagePullSecrets, value: [{name: registry}]}]`), ""},
		{"a digest takes precedence over the tag", "image: {tag: v1.2.3, digest: 'sha256:" + digest + "'}",
			"images: [{name: samplecrd-controller, digest: 'sha256:" + digest + "'}]", ""},
		{"replicas", "replicas: 3", "replicas: [{name: samplecrd-controller, count: 3}]", ""},
		{"GOMEMLIMIT follows the memory limit; 90 % of 1 GiB are 921.6 MiB", "resources: {limits: {memory: 1Gi, cpu: 2}}",
			patch("Deployment", `[{op: replace, path: `+container+`/resources/limits, value: {memory: 1Gi, cpu: 2}}, {op: replace, path: `+container+`/env/0/value, value: 921MiB}]`), ""},
		{"a memory limit in bytes", "resources: {limits: {memory: 1073741824}}",
			patch("Deployment", `[{op: replace, path: `+container+`/resources/limits/memory, value: 1073741824}, {op: replace, path: `+container+`/env/0/value, value: 921MiB}]`), ""},
		{"no memory limit, no GOMEMLIMIT", "resources: {limits: null}",
			patch("Deployment", `[{op: remove, path: `+container+`/resources/limits}, {op: remove, path: `+container+`/env}]`), ""},
		{"no requests and no limits", "resources: null",
			patch("Deployment", `[{op: remove, path: `+container+`/resources}, {op: remove, path: `+container+`/env}]`), ""},
		{"credentials of another Secret", "credentials: {secretName: our-cloud, cloud: production}",
			environment + "[OS_CLOUD=production]}]\n" + patch("Deployment", `[{op: replace, path: `+pod+`/volumes/0/secret/secretName, value: our-cloud}]`), ""},
		{"Secrets of another namespace", "credentials: {namespaces: [team]}", "", `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: samplecrd-controller-credentials, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: samplecrd-controller-credentials}
subjects: [{kind: ServiceAccount, name: samplecrd-controller, namespace: samplecrd-system}]`},
		{"further variables", "environment: {HTTPS_PROXY: 'http://proxy:3128', OS_REGION_NAME: '1'}",
			environment + "['HTTPS_PROXY=http://proxy:3128', OS_REGION_NAME=1]}]", ""},
		{"a variable whose name means something else in YAML", "environment: {'NO': a}", environment + "[NO=a]}]", ""},
		{"another ID of the cluster", "clusterID: clone-1",
			environment + "[CLUSTER_ID=clone-1]}]\n" + patch("Deployment", `[{op: add, path: `+container+`/args/-, value: -cluster-id=$(CLUSTER_ID)}]`), ""},
		{"flags of all types, sorted by their names", "flags: {workers: 64, v: 2, resync: 10m, neutron-qps: 2.5, kube-api-burst: 1000000, delete-orphans: all, profiling: true, allowed-auth-urls: 'https://a,https://b'}",
			patch("Deployment", `[{op: replace, path: `+container+`/args, value: ["-bind-address=:8080", "-allowed-auth-urls=https://a,https://b", -delete-orphans=all, -kube-api-burst=1000000, -neutron-qps=2.5, -profiling=true, -resync=10m, -v=2, -workers=64]}]`), ""},
		{"without workers for Deployments, there is no right for them", "flags: {deployment-workers: 0}", "patches:\n" +
			`- {target: {kind: Deployment}, patch: '[{op: add, path: ` + container + `/args/-, value: -deployment-workers=0}]'}` + "\n" +
			`- {target: {kind: ClusterRole, name: samplecrd-controller$}, patch: '[{op: remove, path: /rules/5}, {op: remove, path: /rules/4}, {op: remove, path: /rules/2}]'}`, ""},
		{"without ClusterClouds, there is no right to read Secrets, nor the labels of namespaces", "flags: {cluster-resource-namespace: ''}", "patches:\n" +
			`- {target: {kind: Deployment}, patch: '[{op: add, path: ` + container + `/args/-, value: -cluster-resource-namespace=}]'}` + "\n" +
			`- {target: {name: samplecrd-controller-cluster-clouds}, patch: '{$patch: delete, kind: x, metadata: {name: x}}'}` + "\n" +
			`- {target: {kind: ClusterRole, name: samplecrd-controller$}, patch: '[{op: remove, path: /rules/9}, {op: remove, path: /rules/8}]'}`, ""},
		{"without ClusterClouds, labels decide about the controller's own cloud", "flags: {cluster-resource-namespace: '', cloud-namespace-selector: team=a}", "patches:\n" +
			`- {target: {kind: Deployment}, patch: '[{op: add, path: ` + container + `/args/-, value: -cloud-namespace-selector=team=a}, {op: add, path: ` + container + `/args/-, value: -cluster-resource-namespace=}]'}` + "\n" +
			`- {target: {name: samplecrd-controller-cluster-clouds}, patch: '{$patch: delete, kind: x, metadata: {name: x}}'}` + "\n" +
			`- {target: {kind: ClusterRole, name: samplecrd-controller$}, patch: '[{op: remove, path: /rules/8}]'}`, ""},
		{"the Secrets of ClusterClouds are in another namespace", "flags: {cluster-resource-namespace: clouds}", "patches:\n" +
			`- {target: {kind: Deployment}, patch: '[{op: add, path: ` + container + `/args/-, value: -cluster-resource-namespace=clouds}]'}` + "\n" +
			`- {target: {name: samplecrd-controller-cluster-clouds}, patch: '[{op: replace, path: /metadata/namespace, value: clouds}]'}`, ""},
		{"HTTPS", "https: {enabled: true}", https, ""},
		{"HTTPS with the certificate of another Secret", "https: {enabled: true, secretName: our-tls}",
			https + patch("Deployment", `[{op: replace, path: `+pod+`/volumes/1/secret/secretName, value: our-tls}]`), ""},
		{"HTTPS for /metrics only: no right to review tokens", "https: {enabled: true}\nflags: {serve-authorized: false}",
			https + "patches:\n" +
				`- {target: {kind: Deployment}, patch: '[{op: add, path: ` + container + `/args/-, value: -serve-authorized=false}]'}` + "\n" +
				`- {target: {name: samplecrd-controller-callers}, patch: '{$patch: delete, kind: x, metadata: {name: x}}'}`, ""},
		{"a ServiceMonitor", "monitoring: {serviceMonitor: {enabled: true}}", "", monitor},
		{"a ServiceMonitor for HTTPS", "https: {enabled: true}\nmonitoring: {serviceMonitor: {enabled: true, interval: 15s, labels: {prometheus: main}, tlsConfig: {serverName: us}}}",
			https + patch("ServiceMonitor", `[{op: replace, path: /spec/endpoints/0, value: {port: https, scheme: https, interval: 15s, tlsConfig: {serverName: us}}}, {op: add, path: /metadata/labels/prometheus, value: main}]`), monitor},
		{"alerts", "monitoring: {rules: {enabled: true}}", "", prometheusRule(t)},
		{"alerts for Prometheus instances that select by a label", "monitoring: {rules: {enabled: true, labels: {prometheus: main}}}",
			patch("PrometheusRule", `[{op: add, path: /metadata/labels, value: {prometheus: main}}]`), prometheusRule(t)},
		{"one replica only is no alert then, nor what values exclude", "replicas: 1\nmonitoring: {rules: {enabled: true, exclude: [SamplecrdOrphans]}}",
			"replicas: [{name: samplecrd-controller, count: 1}]", prometheusRule(t, "SamplecrdReplicaDown", "SamplecrdOrphans")},
		{"a dashboard for the sidecar of Grafana", "monitoring: {dashboard: {enabled: true, annotations: {grafana_folder: Networks}}}",
			`configMapGenerator:
- name: samplecrd-controller-dashboard
  namespace: samplecrd-system
  files: [samplecrd-controller.json=ARTIFACTS/monitoring/dashboard.json]
  options: {disableNameSuffixHash: true, labels: {grafana_dashboard: "1"}, annotations: {grafana_folder: Networks}}`, ""},
		{"no PodDisruptionBudget", "podDisruptionBudget: {enabled: false}", "patches: [{target: {kind: PodDisruptionBudget}, patch: '{$patch: delete, kind: x, metadata: {name: x}}'}]", ""},
		{"another PodDisruptionBudget", "podDisruptionBudget: {maxUnavailable: 50%}", patch("PodDisruptionBudget", `[{op: replace, path: /spec/maxUnavailable, value: 50%}]`), ""},
		{"no NetworkPolicy", "networkPolicy: {enabled: false}", "patches: [{target: {kind: NetworkPolicy}, patch: '{$patch: delete, kind: x, metadata: {name: x}}'}]", ""},
		{"a NetworkPolicy that knows all addresses, with HTTPS", `
https: {enabled: true}
networkPolicy:
  ingress: {from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}
  egress:
    dns: {to: [{ipBlock: {cidr: 192.0.2.53/32}}], ports: [53]}
    kubernetes: {to: [{ipBlock: {cidr: 192.0.2.1/32}}], ports: [6443]}
    openstack: {to: [{ipBlock: {cidr: 198.51.100.0/24}}], ports: [13000, 13696]}
    extra: [{to: [{ipBlock: {cidr: 203.0.113.1/32}}], ports: [{port: 3128, protocol: TCP}]}]`, https + patch("NetworkPolicy", `[
			{op: add, path: /spec/ingress/0/from, value: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]},
			{op: replace, path: /spec/egress, value: [
			{ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}], to: [{ipBlock: {cidr: 192.0.2.53/32}}]},
			{ports: [{port: 6443, protocol: TCP}], to: [{ipBlock: {cidr: 192.0.2.1/32}}]},
			{ports: [{port: 13000, protocol: TCP}, {port: 13696, protocol: TCP}], to: [{ipBlock: {cidr: 198.51.100.0/24}}]},
			{ports: [{port: 3128, protocol: TCP}], to: [{ipBlock: {cidr: 203.0.113.1/32}}]}]}]`), ""},
		{"where the pods run", `
priorityClassName: system-cluster-critical
nodeSelector: {node-role.kubernetes.io/control-plane: ""}
tolerations: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
affinity: {podAntiAffinity: null, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}}
podAnnotations: {example.com/a: b}
podLabels: {team: network}`,
			patch("Deployment", `[
			{op: add, path: `+pod+`/priorityClassName, value: system-cluster-critical},
			{op: add, path: `+pod+`/nodeSelector, value: {node-role.kubernetes.io/control-plane: ""}},
			{op: add, path: `+pod+`/tolerations, value: [{key: node-role.kubernetes.io/control-plane, operator: Exists}]},
			{op: add, path: `+pod+`/topologySpreadConstraints, value: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]},
			{op: replace, path: `+pod+`/affinity, value: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}}},
			{op: add, path: /spec/template/metadata/annotations/example.com~1a, value: b},
			{op: add, path: /spec/template/metadata/labels/team, value: network}]`), ""},
		{"an affinity beside the default one", "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}",
			patch("Deployment", `[{op: add, path: `+pod+`/affinity/nodeAffinity, value: {preferredDuringSchedulingIgnoredDuringExecution: []}}]`), ""},
		{"the CRD is installed by somebody else", "crds: {install: false}", "patches: [{target: {kind: CustomResourceDefinition}, patch: '{$patch: delete, kind: x, metadata: {name: x}}'}]", ""},
		{"the policies that protect Networks from deletion", "deletionProtection: {enabled: true}", "", deletionPolicy},
		{"the rights of users are not extended", "userRoles: {create: false}", "patches: [{target: {kind: ClusterRole, name: samplecrd-networks-.*}, patch: '{$patch: delete, kind: x, metadata: {name: x}}'}]", ""},
	} {
		t.Run(row.reason, func(t *testing.T) {
			chart := rendered(t, systemNamespace, row.values)
			compare(t, kustomized(t, ".", row.kustomization, row.more), chart)
			conforms(t, checker, chart)
		})
	}
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// prometheusRule returns artifacts/monitoring/alerts.yaml as a PrometheusRule, without some alerts.
func prometheusRule(t *testing.T, without ...string) string {
	t.Helper()
	var spec struct {
		Groups []struct {
			Name  string           `json:"name"`
			Rules []map[string]any `json:"rules"`
		} `json:"groups"`
	}
	must(t, yaml.UnmarshalStrict(read(t, artifacts+"/monitoring/alerts.yaml"), &spec))
	for i := range spec.Groups {
		spec.Groups[i].Rules = slices.DeleteFunc(spec.Groups[i].Rules, func(rule map[string]any) bool {
			return slices.Contains(without, rule["alert"].(string))
		})
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
		"metadata": map[string]any{"name": program, "namespace": systemNamespace}, "spec": spec,
	})
	must(t, err)
	return string(text)
}

// The namespace is not samplecrd-system, and the ClusterRoles for users and the CRD belong to the
// whole cluster.
func TestNamespacedRendersArtifactsDeployNamespaced(t *testing.T) {
	const (
		values      = "namespaced: {enabled: true}\nclusterID: this-cluster\n"
		environment = "namespace: default\nconfigMapGenerator: [{name: samplecrd-controller-environment, behavior: merge, namespace: default, literals: [CLUSTER_ID=this-cluster]}]\n"
	)
	crd := string(read(t, artifacts+"/crd/samplecrd.k8s.io_clusterclouds.yaml")) + string(read(t, artifacts+"/crd/samplecrd.k8s.io_networks.yaml"))
	users := string(read(t, artifacts+"/deploy/users.yaml"))
	checker := newConformer(t)
	for _, row := range []struct{ reason, values, kustomization, more string }{
		{"alone", "", "", ""},
		{"with HTTPS", "https: {enabled: true}", "components: [ARTIFACTS/deploy/https]", ""},
		{"an administrator can install the CRD with it", "crds: {install: true}", "", crd},
		{"and the rights of users", "userRoles: {create: true}", "", users},
		{"with no memory limit", "resources: {limits: null}", patch("Deployment",
			`[{op: remove, path: /spec/template/spec/containers/0/resources/limits}, {op: remove, path: /spec/template/spec/containers/0/env/0}]`), ""},
	} {
		t.Run(row.reason, func(t *testing.T) {
			chart := rendered(t, "default", values+row.values)
			compare(t, kustomized(t, "namespaced", environment+row.kustomization, row.more), chart)
			conforms(t, checker, chart)
		})
	}
}

// Otherwise two releases would install two controllers for the same Networks.
func TestNamesDoNotDependOnTheRelease(t *testing.T) {
	r, err := render(t, "another", systemNamespace, "")
	must(t, err)
	if diff := gocmp.Diff(rendered(t, systemNamespace, ""), decode(t, r.Manifest)); diff != "" {
		t.Errorf("(-%s +another):\n%s", program, diff)
	}
}

func TestNamespaceIsAlwaysText(t *testing.T) {
	for key, object := range rendered(t, "123", "credentials: {namespaces: ['456']}\nmonitoring: {serviceMonitor: {enabled: true}, rules: {enabled: true}, dashboard: {enabled: true}}") {
		namespace, ok, err := unstructured.NestedString(object.Object, "metadata", "namespace")
		if err != nil || ok && namespace != "123" && namespace != "456" {
			t.Errorf("%s: %q, %v", key, namespace, err)
		}
	}
}

func TestCRDIsKeptUnlessValuesSayOtherwise(t *testing.T) {
	const key = "CustomResourceDefinition networks.samplecrd.k8s.io"
	for values, want := range map[string]string{"": "keep", "crds: {keep: false}": ""} {
		if got := rendered(t, systemNamespace, values)[key].GetAnnotations()["helm.sh/resource-policy"]; got != want {
			t.Errorf("%q: got %q, want %q", values, got, want)
		}
	}
}

func TestAChangeOfTheEnvironmentRestartsThePods(t *testing.T) {
	hashes := map[string]string{}
	for _, values := range []string{"", "clusterID: a", "credentials: {cloud: other}", "environment: {A: b}"} {
		hash, _, err := unstructured.NestedString(rendered(t, systemNamespace, values)["Deployment "+program].Object, hashOf...)
		must(t, err)
		if same, ok := hashes[hash]; ok {
			t.Errorf("%q and %q have the hash %s", values, same, hash)
		}
		hashes[hash] = values
	}
}

// pkg/README.md says why 1.31 is the oldest.
func TestKubernetesThatIsTooOldIsRefused(t *testing.T) {
	for kubernetes, refused := range map[string]bool{"v1.30.14": true, oldestKubernetes: false, "v1.31.4-gke.1": false, "v1.37.1": false} {
		loaded, err := loader.Load(chart)
		must(t, err)
		if _, err := renderFor(t, kubernetes, loaded, program, systemNamespace, ""); refused != (err != nil) {
			t.Errorf("%s: %v", kubernetes, err)
		}
	}
}

// hack/release.sh sets both versions.
func TestTheTagIsTheVersionOfTheChart(t *testing.T) {
	loaded, err := loader.Load(chart)
	must(t, err)
	if loaded.Metadata.Version != "0.0.0" || loaded.Metadata.AppVersion != "devel" {
		t.Errorf("the versions are %s and %s", loaded.Metadata.Version, loaded.Metadata.AppVersion)
	}
	loaded.Metadata.AppVersion = "v1.2.3"
	r, err := renderChart(t, loaded, program, systemNamespace, "")
	must(t, err)
	if want := "image: \"samplecrd-controller:v1.2.3\"\n"; !strings.Contains(r.Manifest, want) {
		t.Errorf("%s is not in the manifest", want)
	}
}
