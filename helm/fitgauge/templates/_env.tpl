{{/* Every setting of the service that a value sets; empty ones are left to the service's default. */}}
{{- define "fitgauge.env" -}}
{{- $values := .Values -}}
{{- $access := $values.access -}}
{{- $jwtKeys := $access.jwt.keysUrl -}}
{{- if $access.jwt.existingConfigMap }}{{ $jwtKeys = printf "/etc/fitgauge/jwt/%s" $access.jwt.configMapKey }}{{ end -}}
{{- $settings := dict
  "FITGAUGE_LOG_LEVEL" $values.logLevel
  "FITGAUGE_LOG_FORMAT" $values.logFormat
  "FITGAUGE_HUB_WAIT_SECONDS" (toString $values.hub.waitSeconds)
  "FITGAUGE_HUB_REDIRECT_HOSTS" (join ", " $values.hub.redirectHosts)
  "FITGAUGE_MAX_BODY_BYTES" (int64 $values.maxBodyBytes | toString)
  "FITGAUGE_REQUESTS_PER_SECOND" (toString $values.requestsPerSecond)
  "FITGAUGE_QUESTION_SECONDS" (toString $values.questionSeconds)
  "FITGAUGE_PUBLIC_URL" $values.publicUrl
  "FITGAUGE_ROOT_PATH" $values.gateway.rootPath
  "FITGAUGE_TRUSTED_PROXIES" (join ", " $values.gateway.trustedProxies)
  "FITGAUGE_COMPRESSION" (toString $values.gateway.compression)
  "FITGAUGE_JWT_KEYS" $jwtKeys
  "FITGAUGE_JWT_ISSUER" $access.jwt.issuer
  "FITGAUGE_JWT_AUDIENCE" $access.jwt.audience
  "FITGAUGE_JWT_ALGORITHMS" (join ", " $access.jwt.algorithms)
  "FITGAUGE_JWT_SCOPE" $access.jwt.scope
  "FITGAUGE_JWT_LEEWAY_SECONDS" (toString $access.jwt.leewaySeconds)
  "FITGAUGE_CALLER_HEADER" $access.callerHeader
  "FITGAUGE_ANONYMOUS" (toString $access.anonymous)
  "FITGAUGE_OPEN_METRICS" (toString $access.openMetrics)
  "FITGAUGE_CALLER_REQUESTS_PER_SECOND" (toString $access.requestsPerSecond)
  "FITGAUGE_CALLER_REQUESTS_PER_DAY" (int64 $access.requestsPerDay | toString)
  "FITGAUGE_CALLER_HUB_TOKENS" (toString $access.hubTokens)
  "FITGAUGE_MCP" (toString $values.mcp.enabled)
  "FITGAUGE_MCP_HOSTS" (join ", " $values.mcp.hosts)
  "FITGAUGE_MCP_ORIGINS" (join ", " $values.mcp.origins)
  "FITGAUGE_TRACING" (toString $values.tracing.enabled)
  "HF_ENDPOINT" $values.hub.endpoint
-}}
{{- if $access.apiKeys.existingSecret }}{{ $_ := set $settings "FITGAUGE_API_KEYS" (printf "/etc/fitgauge/keys/%s" $access.apiKeys.secretKey) }}{{ end -}}
{{- if include "fitgauge.catalogName" . }}
{{- $_ := set $settings "FITGAUGE_CATALOG" "/etc/fitgauge/catalog" -}}
{{- $_ := set $settings "FITGAUGE_CATALOG_SECONDS" (toString $values.catalog.seconds) -}}
{{- end -}}
{{- if $values.truth.existingConfigMap }}{{ $_ := set $settings "FITGAUGE_TRUTH" "/etc/fitgauge/truth" }}{{ end -}}
{{- if $values.hub.offline }}{{ $_ := set $settings "HF_HUB_OFFLINE" "1" }}{{ end -}}
{{- if $values.tracing.enabled }}{{ $_ := set $settings "OTEL_EXPORTER_OTLP_ENDPOINT" $values.tracing.endpoint }}{{ end -}}
- {name: HF_HOME, value: /cache}
{{- range $name, $value := $settings }}
{{- if $value }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
{{- with $values.hub.existingSecret }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: {{ $values.hub.secretKey }}}
{{- end }}
{{- if $values.valkey.enabled }}
{{ include "fitgauge.valkeyPassword" . }}
- {name: FITGAUGE_SHARED_STATE, value: "valkey://:$(VALKEY_PASSWORD)@{{ include "fitgauge.fullname" . }}-valkey:6379/0"}
{{- else if $values.sharedState.existingSecret }}
- name: FITGAUGE_SHARED_STATE
  valueFrom:
    secretKeyRef: {name: {{ $values.sharedState.existingSecret }}, key: {{ $values.sharedState.secretKey }}}
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}
