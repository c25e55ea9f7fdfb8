{{- define "fitgauge.name" -}}
{{- .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* 50 characters, so that what is added to it fits a label. */}}
{{- define "fitgauge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "fitgauge.release" -}}
app.kubernetes.io/name: {{ include "fitgauge.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fitgauge.selectorLabels" -}}
{{ include "fitgauge.release" . }}
app.kubernetes.io/component: service
{{- end -}}

{{- define "fitgauge.valkeySelectorLabels" -}}
{{ include "fitgauge.release" . }}
app.kubernetes.io/component: valkey
{{- end -}}

{{- define "fitgauge.testLabels" -}}
{{ include "fitgauge.release" . }}
app.kubernetes.io/component: test
{{- end -}}

{{/* Of every object. */}}
{{- define "fitgauge.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "fitgauge.release" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "fitgauge.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "fitgauge.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "fitgauge.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* The ConfigMap that holds the own catalog; empty where there is none. */}}
{{- define "fitgauge.catalogName" -}}
{{- if .Values.catalog.existingConfigMap }}{{ .Values.catalog.existingConfigMap }}
{{- else if .Values.catalog.contents }}{{ include "fitgauge.fullname" . }}-catalog
{{- end }}
{{- end }}

{{/* The port of an address. */}}
{{- define "fitgauge.portOf" -}}
{{- $url := urlParse . -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "80" "443" (eq $url.scheme "http")) -}}
{{- end -}}

{{/* Whether callers need credentials: "true" or empty. */}}
{{- define "fitgauge.isClosed" -}}
{{- $access := .Values.access -}}
{{- if and (not $access.anonymous) (or $access.apiKeys.existingSecret $access.jwt.keysUrl $access.jwt.existingConfigMap $access.callerHeader) -}}
true
{{- end -}}
{{- end -}}

{{- define "fitgauge.valkeyPassword" -}}
- name: VALKEY_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ .Values.valkey.existingSecret }}, key: {{ .Values.valkey.secretKey }}}
{{- end -}}
