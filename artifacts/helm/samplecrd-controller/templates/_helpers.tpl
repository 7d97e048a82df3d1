{{- /*
The names of the objects do not depend on the release. There can be one controller for a cluster, or
one for each namespace, and Helm refuses to install a second one: its objects belong to the first.
*/}}

{{- define "samplecrd.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}
{{- else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether a value that can be auto is on: not empty if so. auto means: unless namespaced.enabled. */}}
{{- define "samplecrd.isOn" -}}
{{- $value := toString .value }}
{{- if eq $value "auto" }}
{{- if not .root.Values.namespaced.enabled }}true{{ end }}
{{- else if eq $value "true" }}true
{{- end }}
{{- end }}

{{- /* 90 % of the memory limit; empty without a limit. */}}
{{- define "samplecrd.goMemoryLimit" -}}
{{- $limit := dig "limits" "memory" "" (default dict .Values.resources) }}
{{- if $limit }}
{{- $text := kindIs "string" $limit | ternary $limit (toJson $limit) }}
{{- $number := regexFind "^[0-9.]+" $text }}
{{- $units := dict "" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- $bytes := mulf $number (get $units (trimPrefix $number $text)) }}
{{- printf "%dMiB" (int64 (floor (divf (mulf $bytes 0.9) 1048576))) }}
{{- end }}
{{- end }}

{{- /* The value of a flag as text; empty if it is not set. */}}
{{- define "samplecrd.flag" -}}
{{- $value := get .root.Values.flags .name }}
{{- if kindIs "string" $value }}{{ $value }}{{ else if not (kindIs "invalid" $value) }}{{ toJson $value }}{{ end }}
{{- end }}

{{- /* The namespace of the Secrets of ClusterClouds; empty if there are none. */}}
{{- define "samplecrd.clusterCloudNamespace" -}}
{{- if hasKey .Values.flags "cluster-resource-namespace" }}
{{- get .Values.flags "cluster-resource-namespace" }}
{{- else if not .Values.namespaced.enabled }}
{{- .Release.Namespace }}
{{- end }}
{{- end }}

{{- /* Whether callers with tokens are served: not empty if so. */}}
{{- define "samplecrd.servesCallers" -}}
{{- if and .Values.https.enabled (ne (include "samplecrd.flag" (dict "root" . "name" "serve-authorized")) "false") }}true{{ end }}
{{- end }}

{{- define "samplecrd.subjects" -}}
subjects:
- {kind: ServiceAccount, name: samplecrd-controller, namespace: {{ quote .Release.Namespace }}}
{{- end }}

{{- /* The data of the ConfigMap with the environment. */}}
{{- define "samplecrd.environment" -}}
OS_CLOUD: {{ quote .Values.credentials.cloud }}
{{- with .Values.clusterID }}
CLUSTER_ID: {{ quote . }}
{{- end }}
{{- range $name, $value := .Values.environment }}
{{ quote $name }}: {{ quote $value }}
{{- end }}
{{- end }}

{{- /* The rules that the controller needs in the namespaces of its Networks. artifacts/deploy/rbac.yaml
has the reason of each. */}}
{{- define "samplecrd.rules" -}}
{{- $deployments := ne (include "samplecrd.flag" (dict "root" . "name" "deployment-workers")) "0" -}}
- apiGroups: [samplecrd.k8s.io]
  resources: [networks]
  verbs: [list, watch]
- apiGroups: [samplecrd.k8s.io]
  resources: [networks]
  verbs: [get, patch]
{{- if $deployments }}
- apiGroups: [samplecrd.k8s.io]
  resources: [networks]
  verbs: [create, delete]
{{- end }}
- apiGroups: [samplecrd.k8s.io]
  resources: [networks/status]
  verbs: [patch]
{{- if $deployments }}
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch]
- apiGroups: [apps]
  resources: [deployments/finalizers]
  verbs: [update]
{{- end }}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- /* Mistakes that values.schema.json cannot explain. */}}
{{- define "samplecrd.validate" -}}
{{- $reserved := dict
  "bind-address" "the chart sets it: :8080, or :8443 with https.enabled"
  "cloud" "set credentials.cloud"
  "cluster-id" "set clusterID"
  "kubeconfig" "the controller uses the ServiceAccount of its pod"
  "leader-elect" "the chart needs leader election, because two pods run during each update"
  "leader-elect-resource-name" "the Role and the alerts name the Lease samplecrd-controller"
  "leader-elect-resource-namespace" "the Lease is in the namespace of the release"
  "master" "the controller uses the ServiceAccount of its pod"
  "namespace" "set namespaced.enabled, and install the release in that namespace"
  "tls-cert-file" "set https.enabled"
  "tls-private-key-file" "set https.enabled"
  "version" "the controller would print its version and exit"
}}
{{- range $name, $_ := .Values.flags }}
{{- with get $reserved $name }}
{{- fail (printf "flags.%s cannot be set: %s" $name .) }}
{{- end }}
{{- end }}
{{- $secret := "it would be in a ConfigMap: put it into clouds.yaml, in the Secret of credentials.secretName" }}
{{- $reserved = dict "OS_CLOUD" "set credentials.cloud" "CLUSTER_ID" "set clusterID" "GOMEMLIMIT" "it follows from resources.limits.memory"
  "NAMESPACE" "set namespaced.enabled, and install the release in that namespace" }}
{{- range $name, $_ := .Values.environment }}
{{- with regexMatch "PASSWORD|PASSCODE|SECRET|TOKEN" $name | ternary $secret (get $reserved $name) }}
{{- fail (printf "environment.%s cannot be set: %s" $name .) }}
{{- end }}
{{- end }}
{{- if hasKey (default dict .Values.podLabels) "app.kubernetes.io/name" }}
{{- fail "podLabels cannot have app.kubernetes.io/name: the Deployment finds its pods by this label" }}
{{- end }}
{{- if and .Values.namespaced.enabled (not .Values.clusterID) }}
{{- fail "namespaced.enabled needs clusterID, because the controller may not read the UID of the namespace kube-system: kubectl get namespace kube-system -o jsonpath='{.metadata.uid}'" }}
{{- end }}
{{- if and .Values.namespaced.enabled (get .Values.flags "cluster-resource-namespace") }}
{{- fail "flags.cluster-resource-namespace cannot be set with namespaced.enabled: ClusterClouds need a ClusterRole, and there is none" }}
{{- end }}
{{- if and .Values.namespaced.enabled (get .Values.flags "cloud-namespace-selector") }}
{{- fail "flags.cloud-namespace-selector cannot be set with namespaced.enabled: only the namespace of the release uses the cloud" }}
{{- end }}
{{- if and .Values.namespaced.enabled .Values.credentials.namespaces }}
{{- fail "credentials.namespaces cannot be set with namespaced.enabled: there is no ClusterRole for it. Create a Role for the Secrets in the namespace of the release" }}
{{- end }}
{{- if and (not .Values.https.enabled) (eq (include "samplecrd.flag" (dict "root" . "name" "serve-authorized")) "true") }}
{{- fail "flags.serve-authorized cannot be true without https.enabled: callers would send their tokens unencrypted" }}
{{- end }}
{{- end }}
