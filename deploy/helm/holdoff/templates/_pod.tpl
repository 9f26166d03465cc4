{{/* Secrets that are mounted, by the name of their folder under /etc/holdoff. */}}
{{- define "holdoff.secrets" -}}
{{- with .Values.tls.secretName }}
tls: {{ . }}
{{- end }}
{{- with .Values.tls.clientCaSecretName }}
client-ca: {{ . }}
{{- end }}
{{- if include "holdoff.mutual" . }}
probe: {{ .Values.tls.probeSecretName }}
{{- end }}
{{- with .Values.access.existingSecret }}
access: {{ . }}
{{- end }}
{{- end -}}

{{/*
How it is asked whether it lives. Kubernetes' gRPC probe knows no TLS, and its HTTPS probe no
certificate of its own; where one is required the program itself asks.
*/}}
{{- define "holdoff.probe" -}}
{{- if include "holdoff.mutual" .root -}}
exec:
  command:
    - /usr/local/bin/holdoff
    - healthcheck
    - --server=https://{{ include "holdoff.serverName" .root }}:7460
    - --ca=/etc/holdoff/probe/ca.crt
    - --cert=/etc/holdoff/probe/tls.crt
    - --key=/etc/holdoff/probe/tls.key
{{- else if .root.Values.tls.secretName -}}
httpGet: {path: {{ .path }}, port: http, scheme: HTTPS}
{{- else -}}
grpc: {port: 7460}
{{- end }}
timeoutSeconds: 5
{{- end -}}

{{- define "holdoff.probes" -}}
# A start reads the data directory and, with a store, waits for it: up to a minute.
startupProbe:
  {{- include "holdoff.probe" (dict "root" . "path" "/healthz") | nindent 2 }}
  periodSeconds: 2
  failureThreshold: 30
# Slow to act: clients go on by themselves while it is busy, and a restart forgets windows.
livenessProbe:
  {{- include "holdoff.probe" (dict "root" . "path" "/healthz") | nindent 2 }}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  {{- include "holdoff.probe" (dict "root" . "path" "/readyz") | nindent 2 }}
  periodSeconds: 5
  failureThreshold: 2
{{- end -}}
