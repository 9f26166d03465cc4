package io.holdoff.client.rules;

import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.List;
import java.util.OptionalLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The three forms of a date in HTTP (RFC 9110, 5.6.7), read exactly: no other spaces, no other
 * zone, no short years but in the old form that has them. A name of a day is not compared with
 * the date.
 */
final class HttpDate {
    private static final String SHORT_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
    private static final String LONG_DAY =
            "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)";
    private static final String TIME =
            "(?<hour>[0-9]{2}):(?<minute>[0-9]{2}):(?<second>[0-9]{2})";
    private static final String MONTH = "(?<month>[A-Z][a-z]{2})";

    /** {@code Wed, 21 Oct 2015 07:28:00 GMT}. */
    private static final Pattern IMF =
            Pattern.compile(
                    SHORT_DAY + ", (?<day>[0-9]{2}) " + MONTH + " (?<year>[0-9]{4}) " + TIME + " GMT");

    /** {@code Wednesday, 21-Oct-15 07:28:00 GMT}. */
    private static final Pattern RFC_850 =
            Pattern.compile(
                    LONG_DAY + ", (?<day>[0-9]{2})-" + MONTH + "-(?<year>[0-9]{2}) " + TIME + " GMT");

    /** {@code Wed Oct 21 07:28:00 2015}, a day below ten padded by a space. */
    private static final Pattern ASCTIME =
            Pattern.compile(
                    SHORT_DAY + " " + MONTH + " (?<day>[0-9 ][0-9]) " + TIME + " (?<year>[0-9]{4})");

    private static final List<String> MONTHS =
            List.of(
                    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
                    "Dec");

    /** On average, in the Gregorian calendar. */
    private static final long SECONDS_IN_A_YEAR = 31_556_952;

    private HttpDate() {}

    /** As seconds since 1970. */
    static OptionalLong parse(String text, long wallUnixSeconds) {
        for (Pattern form : List.of(IMF, RFC_850, ASCTIME)) {
            Matcher matcher = form.matcher(text);
            if (matcher.matches()) {
                int year = number(matcher, "year");
                return instant(matcher, form == RFC_850 ? fullYear(year, wallUnixSeconds) : year);
            }
        }
        return OptionalLong.empty();
    }

    /** One that would lie more than 50 years ahead is a century back. */
    private static int fullYear(int year, long wallUnixSeconds) {
        long thisYear = 1970 + wallUnixSeconds / SECONDS_IN_A_YEAR;
        return 2000 + year > thisYear + 50 ? 1900 + year : 2000 + year;
    }

    private static OptionalLong instant(Matcher matcher, int year) {
        int hour = number(matcher, "hour");
        int minute = number(matcher, "minute");
        // A leap second is one.
        int second = number(matcher, "second");
        if (hour > 23 || minute > 59 || second > 60) {
            return OptionalLong.empty();
        }
        try {
            int month = MONTHS.indexOf(matcher.group("month")) + 1;
            LocalDate date = LocalDate.of(year, month, number(matcher, "day"));
            long seconds = hour * 3600L + minute * 60L + second;
            return OptionalLong.of(date.toEpochDay() * 86_400 + seconds);
        } catch (DateTimeException noSuchDay) {
            return OptionalLong.empty();
        }
    }

    private static int number(Matcher matcher, String group) {
        return Integer.parseInt(matcher.group(group).strip());
    }
}
