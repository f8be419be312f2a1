{{/* The image of server and node agent. */}}
{{- define "pinnace.image" -}}
{{- $repository := required "image.repository is required: the image is built with deploy/image" .Values.image.repository -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default (printf "v%s" .Chart.AppVersion)) -}}
{{- end -}}

{{- define "pinnace.pullPolicy" -}}
{{- .Values.image.pullPolicy | default (eq .Values.image.tag "latest" | ternary "Always" "IfNotPresent") -}}
{{- end -}}

{{/* The name of objects that are in no namespace. */}}
{{- define "pinnace.clusterWideName" -}}
{{- eq .Release.Namespace "velero" | ternary "velero" (printf "velero-%s" .Release.Namespace) -}}
{{- end -}}

{{/* The Secret with the credentials; empty if there is none. */}}
{{- define "pinnace.credentials" -}}
{{- if .Values.credentials.existingSecret -}}
{{- .Values.credentials.existingSecret -}}
{{- else if .Values.credentials.content -}}
cloud-credentials
{{- end -}}
{{- end -}}

{{/* The name of a plugin's init container: its image without registry, tag and digest. */}}
{{- define "pinnace.pluginName" -}}
{{- $name := (splitList "@" .) | first -}}
{{- $parts := splitList "/" $name -}}
{{- $last := (splitList ":" (last $parts)) | first -}}
{{- $parts = append (initial $parts) $last -}}
{{- if and (gt (len $parts) 1) (or (gt (len $parts) 2) (contains ":" (first $parts))) -}}
{{- $parts = rest $parts -}}
{{- end -}}
{{- regexReplaceAll "[/_.]" (join "/" $parts) "-" -}}
{{- end -}}

{{- define "pinnace.features" -}}
{{- if .Values.features -}}
- {{ printf "--features=%s" .Values.features | quote }}
{{- end }}
{{- end -}}

{{/* The argument is the name of the port. */}}
{{- define "pinnace.probes" -}}
startupProbe:
  httpGet:
    path: /healthz
    port: {{ . }}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 150
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ . }}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ . }}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 15
{{- end -}}

{{- define "pinnace.unprivileged" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "pinnace.noPrivileges" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}

{{/* Whether the server itself is the controller of self-service. */}}
{{- define "pinnace.serverIsNonAdmin" -}}
{{- if has "NonAdmin" (splitList "," .Values.features) -}}true{{- end -}}
{{- end -}}

{{/* The rules of a role of tenants: `verbs` on `kind`, and reading its status. */}}
{{- define "pinnace.tenantRules" -}}
rules:
  - apiGroups: [oadp.openshift.io]
    resources: [{{ .kind }}s]
    verbs: {{ toJson .verbs }}
  - apiGroups: [oadp.openshift.io]
    resources: [{{ .kind }}s/status]
    verbs: [get]
{{- end -}}

{{- define "pinnace.credentialVariables" -}}
{{- if include "pinnace.credentials" . -}}
{{- range $index, $name := list "GOOGLE_APPLICATION_CREDENTIALS" "AWS_SHARED_CREDENTIALS_FILE" "AZURE_CREDENTIALS_FILE" "ALIBABA_CLOUD_CREDENTIALS_FILE" -}}
{{- if $index }}{{ "\n" }}{{ end -}}
- name: {{ $name }}
  value: /credentials/cloud
{{- end }}
{{- end }}
{{- end -}}

{{- define "pinnace.mounts" -}}
- name: scratch
  mountPath: /scratch
- name: scratch
  mountPath: /tmp
  subPath: tmp
{{- if include "pinnace.credentials" . }}
- name: cloud-credentials
  mountPath: /credentials
{{- end }}
{{- end -}}

{{- define "pinnace.volumes" -}}
- name: scratch
  emptyDir: {}
{{- with include "pinnace.credentials" . }}
- name: cloud-credentials
  secret:
    secretName: {{ . }}
{{- end }}
{{- end -}}

{{/* Where a pod may run, by default on every node but those with Windows; `placement` is the part of the values
of its workload. */}}
{{- define "pinnace.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .placement.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .placement.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
os:
  name: linux
affinity:
{{- with .placement.affinity }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
        - matchExpressions:
            - key: kubernetes.io/os
              operator: NotIn
              values: [windows]
{{- end }}
{{- with .placement.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- range $member := list "topologySpreadConstraints" "hostAliases" "dnsPolicy" "dnsConfig" }}
{{- with index $.placement $member }}
{{ dict $member . | toYaml }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Labels or annotations of an object, besides its own, which they cannot replace; `own` and `more`. */}}
{{- define "pinnace.metadata" -}}
{{- range $key, $_ := .more }}
{{- if hasKey $.own $key }}
{{- fail (printf "%s cannot set %s: objects are found by it" $.what $key) }}
{{- end }}
{{- end }}
{{- with merge (dict) .own .more }}
{{- toYaml . }}
{{- end }}
{{- end -}}

{{/* The program that saves pod volumes: by the values, else as an existing server has it, else kopia. */}}
{{- define "pinnace.uploader" -}}
{{- $live := lookup "apps/v1" "Deployment" .Release.Namespace "velero" -}}
{{- if .Values.server.uploaderType -}}
{{- .Values.server.uploaderType -}}
{{- else if $live -}}
{{- range (index $live.spec.template.spec.containers 0).args -}}
{{- if hasPrefix "--uploader-type=" . -}}{{- trimPrefix "--uploader-type=" . -}}{{- end -}}
{{- end -}}
{{- else -}}
kopia
{{- end -}}
{{- end -}}
