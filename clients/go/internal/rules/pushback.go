package rules

import (
	"slices"
	"strconv"
	"strings"
)

// GRPCPushback reads grpc-retry-pushback-ms (gRFC A6): decimal milliseconds, no sign, no leading
// zero, at most 2^31 - 1. Anything else says "do not retry", which is false here.
func GRPCPushback(value string) (Nanos, bool) {
	canonical := value == "0" || !strings.HasPrefix(value, "0")
	if !canonical || !digits(value) {
		return 0, false
	}
	millis, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return 0, false
	}
	return Nanos(millis) * Millisecond, true
}

// RetryAfter reads the header of that name (RFC 9110, section 10.2.3): whole seconds, or one of the
// three date forms. A date counts from the response's own Date where that can be read, else from the
// wall clock; one that has passed is zero. False: it is no instruction.
func RetryAfter(value, date string, wallUnix int64) (Nanos, bool) {
	value = strings.Trim(value, " \t")
	if digits(value) {
		seconds, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return Forever, true
		}
		return Second.Mul(seconds), true
	}
	then, ok := httpDate(value, wallUnix)
	if !ok {
		return 0, false
	}
	now, ok := httpDate(strings.Trim(date, " \t"), wallUnix)
	if !ok {
		now = wallUnix
	}
	return Second.Mul(uint64(max(then-now, 0))), true
}

var (
	shortDays = []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	longDays  = []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	months    = []string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}
)

// secondsInAYear is the mean of the Gregorian calendar.
const secondsInAYear = 31_556_952

// httpDate reads the three forms of RFC 9110, section 5.6.7, strictly, as seconds since 1970. The
// parsers of package time take more than these.
func httpDate(value string, wallUnix int64) (int64, bool) {
	day, rest, found := strings.Cut(value, ",")
	if !found {
		day, rest, found = strings.Cut(value, " ")
		if !found || !slices.Contains(shortDays, day) {
			return 0, false
		}
		return asctime(rest)
	}
	rest, hasSpace := strings.CutPrefix(rest, " ")
	rest, hasZone := strings.CutSuffix(rest, " GMT")
	switch {
	case !hasSpace || !hasZone:
		return 0, false
	case slices.Contains(shortDays, day):
		return imfDate(rest)
	case slices.Contains(longDays, day):
		return rfc850Date(rest, wallUnix)
	default:
		return 0, false
	}
}

// imfDate reads "21 Oct 2015 07:28:00".
func imfDate(text string) (int64, bool) {
	parts := strings.Split(text, " ")
	if len(parts) != 4 {
		return 0, false
	}
	return instant(number(parts[2], 4), parts[1], number(parts[0], 2), parts[3])
}

// rfc850Date reads "21-Oct-15 07:28:00". A year that would lie more than 50 years ahead is a century
// back.
func rfc850Date(text string, wallUnix int64) (int64, bool) {
	date, clock, _ := strings.Cut(text, " ")
	parts := strings.Split(date, "-")
	if len(parts) != 3 {
		return 0, false
	}
	year := number(parts[2], 2)
	if year < 0 {
		return 0, false
	}
	year += 2000
	if thisYear := 1970 + wallUnix/secondsInAYear; year > thisYear+50 {
		year -= 100
	}
	return instant(year, parts[1], number(parts[0], 2), clock)
}

// asctime reads "Oct 21 07:28:00 2015", a day below ten padded by a space.
func asctime(text string) (int64, bool) {
	month, rest, _ := strings.Cut(text, " ")
	if len(rest) < 3 || rest[2] != ' ' {
		return 0, false
	}
	day := number(rest[:2], 2)
	if digit, padded := strings.CutPrefix(rest[:2], " "); padded {
		day = number(digit, 1)
	}
	clock, year, _ := strings.Cut(rest[3:], " ")
	return instant(number(year, 4), month, day, clock)
}

// number reads exactly so many digits; -1 is none, and in no range.
func number(text string, length int) int64 {
	if len(text) != length || !digits(text) {
		return -1
	}
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return value
}

func digits(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

func instant(year int64, monthName string, day int64, clock string) (int64, bool) {
	month := int64(slices.Index(months, monthName) + 1)
	parts := strings.Split(clock, ":")
	if year < 0 || month == 0 || len(parts) != 3 {
		return 0, false
	}
	hour, minute, second := number(parts[0], 2), number(parts[1], 2), number(parts[2], 2)
	within := func(value, low, high int64) bool { return low <= value && value <= high }
	if !within(day, 1, daysIn(year, month)) || !within(hour, 0, 23) || !within(minute, 0, 59) || !within(second, 0, 60) {
		return 0, false
	}
	return daysSince1970(year, month, day)*86_400 + hour*3_600 + minute*60 + second, true
}

func daysIn(year, month int64) int64 {
	switch month {
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// daysSince1970 counts with years that begin in March, so that the leap day is the last one of its
// year.
func daysSince1970(year, month, day int64) int64 {
	if month <= 2 {
		year--
	}
	dayOfYear := (153*((month+9)%12)+2)/5 + day - 1
	return year*365 + floorDiv(year, 4) - floorDiv(year, 100) + floorDiv(year, 400) + dayOfYear - 719_468
}

func floorDiv(a, by int64) int64 {
	quotient := a / by
	if a%by < 0 {
		quotient--
	}
	return quotient
}
