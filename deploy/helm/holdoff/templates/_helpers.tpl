{{- define "holdoff.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name where it says holdoff already, else both. 52 letters: "-headless" follows. */}}
{{- define "holdoff.fullname" -}}
{{- $name := include "holdoff.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdoff.selector" -}}
app.kubernetes.io/name: {{ include "holdoff.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdoff.labels" -}}
{{ include "holdoff.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: coordinator
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "holdoff.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "holdoff.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "holdoff.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* "yes" or nothing: a template gives text. So do those below. */}}
{{- define "holdoff.shared" -}}
{{- if or .Values.store.url .Values.store.existingSecret }}yes{{ end -}}
{{- end -}}

{{- define "holdoff.many" -}}
{{- if .Values.autoscaling.enabled }}yes{{ else if gt (int .Values.replicas) 1 }}yes{{ end -}}
{{- end -}}

{{/* Certificates of clients are required: Kubernetes' own probes cannot show one. */}}
{{- define "holdoff.mutual" -}}
{{- if and .Values.tls.clientCaSecretName (eq .Values.tls.clients "required") }}yes{{ end -}}
{{- end -}}

{{- define "holdoff.policies" -}}
{{- if .Values.existingPolicies -}}
{{- .Values.existingPolicies -}}
{{- else if .Values.policies -}}
{{- printf "%s-policies" (include "holdoff.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "holdoff.serverName" -}}
{{- default (printf "%s.%s.svc" (include "holdoff.fullname" .) .Release.Namespace) .Values.tls.serverName -}}
{{- end -}}

{{/* What cannot work together, all of it at once: nobody should be told of one after the other. */}}
{{- define "holdoff.refuse" -}}
{{- $wrong := list -}}
{{- if and (include "holdoff.many" .) (not (include "holdoff.shared" .)) -}}
{{- $count := ternary (printf "autoscaling.maxReplicas: %d" (int .Values.autoscaling.maxReplicas)) (printf "replicas: %d" (int .Values.replicas)) .Values.autoscaling.enabled -}}
{{- $wrong = append $wrong (printf "%s: replicas without a store know nothing of each other, so each has breakers and budgets of its own; set store.existingSecret (or store.url), or replicas: 1 and no autoscaling" $count) -}}
{{- end -}}
{{- if and .Values.store.url .Values.store.existingSecret -}}
{{- $wrong = append $wrong "store.url and store.existingSecret: one of them says where the store is" -}}
{{- end -}}
{{- if and .Values.store.url (contains "@" .Values.store.url) -}}
{{- $wrong = append $wrong "store.url: has a password that everybody who may read this release would see; put the URL into a Secret and name it in store.existingSecret" -}}
{{- end -}}
{{- if and (not .Values.tls.secretName) (not .Values.insecure) -}}
{{- $wrong = append $wrong "tls.secretName: is empty, so everybody who reaches the pods may use them; name a Secret, or say insecure: true" -}}
{{- end -}}
{{- if and .Values.tls.secretName .Values.insecure -}}
{{- $wrong = append $wrong "insecure: true and tls.secretName: one of them is meant" -}}
{{- end -}}
{{- if and .Values.tls.clientCaSecretName (not .Values.tls.secretName) -}}
{{- $wrong = append $wrong "tls.clientCaSecretName: certificates of clients need tls.secretName" -}}
{{- end -}}
{{- if and (include "holdoff.mutual" .) (not .Values.tls.probeSecretName) -}}
{{- $wrong = append $wrong "tls.probeSecretName: certificates are required of all who connect, and so of the probes; name a Secret with one for them, or say tls.clients: optional" -}}
{{- end -}}
{{- if and .Values.policies .Values.existingPolicies -}}
{{- $wrong = append $wrong "policies and existingPolicies: one of them says what the policies are" -}}
{{- end -}}
{{- if and (eq .Values.data.kind "claim") (include "holdoff.many" .) -}}
{{- $wrong = append $wrong "data.kind: claim: a data directory has one writer; with more than one replica say data.kind: pod" -}}
{{- end -}}
{{- if and (eq .Values.data.kind "claim") (not .Values.data.existingClaim) -}}
{{- $wrong = append $wrong "data.existingClaim: data.kind: claim needs the name of a volume claim" -}}
{{- end -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) -}}
{{- $wrong = append $wrong (printf "autoscaling.minReplicas: %d is more than maxReplicas: %d" (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- end -}}
{{- if $wrong -}}
{{- fail (printf "\n\nholdoff: these values are refused:\n  - %s\n" (join "\n  - " $wrong)) -}}
{{- end -}}
{{- end -}}
