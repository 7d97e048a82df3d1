# The controller as a static binary and nothing else: the certificate authorities that it
# trusts are inside the binary. hack/release.sh makes the same image without Docker, for
# more than one architecture. Build from the top folder of the repository:
#   docker build --build-arg VERSION=v0.1.0 --build-arg COMMIT=$(git rev-parse HEAD) .
# The digest is that of the image for all architectures. Renew it together with the tag:
#   docker buildx imagetools inspect golang:1.26
FROM golang:1.26.8@sha256:0f063af2d465d8dcae54cce04278ada488b96f77b42449c8d071e47d016cc65a AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY *.go ./
COPY pkg pkg
ARG VERSION=devel
ARG COMMIT=unknown
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/samplecrd/samplecrd-controller/pkg/version.Version=${VERSION} -X github.com/samplecrd/samplecrd-controller/pkg/version.Commit=${COMMIT}" \
      -o /samplecrd-controller .

FROM scratch
COPY --from=build /samplecrd-controller /
# An ID that no user of a host has.
USER 65532:65532
ENTRYPOINT ["/samplecrd-controller"]
