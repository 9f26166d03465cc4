package rules

import "strings"

// headerValues are those of each name, which has no case.
func headerValues(headers [][2]string) map[string][]string {
	values := map[string][]string{}
	for _, header := range headers {
		name := strings.ToLower(header[0])
		values[name] = append(values[name], header[1])
	}
	return values
}
