{{- define "tallystick.labels" -}}
app.kubernetes.io/name: tallystick
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tallystick.release-labels" -}}
{{ include "tallystick.labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "tallystick.name" -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "tallystick.service-account" -}}
{{ .Values.serviceAccount.name | default (include "tallystick.name" .) }}
{{- end }}

{{- define "tallystick.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The commands of the Procfile; a test compares them. */}}
{{- define "tallystick.commands" -}}
web: [gunicorn, --config, "python:service.web.server.gunicorn_config"]
worker: [tallystick, worker]
mail: [tallystick, worker, --queue, mail]
notices: [tallystick, worker, --queue, notices]
sweeper: [tallystick, sweeper]
metrics: [tallystick, metrics]
{{- end }}

{{- define "tallystick.claim" -}}
{{ .Values.storage.existingClaim | default (printf "%s-blobs" (include "tallystick.name" .)) }}
{{- end }}

{{- define "tallystick.pod-security" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tallystick.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "tallystick.environment" -}}
- {name: BASE_URL, value: {{ printf "https://%s" .Values.host | quote }}}
- {name: TRUSTED_PROXIES, value: {{ .Values.trustedProxies | quote }}}
- {name: STOP_SECONDS, value: {{ .Values.stopSeconds | quote }}}
{{- if .Values.storage.url }}
- {name: STORAGE_URL, value: {{ .Values.storage.url | quote }}}
{{- end }}
{{- range $setting, $key := .Values.secrets.keys }}
- {name: {{ $setting }}_FILE, value: /run/secrets/tallystick/{{ $key }}}
{{- end }}
{{- range $setting, $value := .Values.settings }}
- {name: {{ $setting }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- end }}

{{- define "tallystick.secret-volume" -}}
name: secrets
secret:
  secretName: {{ .Values.secrets.name }}
  # Read by the pod's group.
  defaultMode: 0440
  items:
    {{- range $setting, $key := .Values.secrets.keys }}
    - {key: {{ $key }}, path: {{ $key }}}
    {{- end }}
{{- end }}
