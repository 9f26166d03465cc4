package io.holdoff.client.link;

import io.grpc.Status;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.UnknownHostException;
import java.nio.channels.UnresolvedAddressException;

/** What errors of a connection and of the service mean. */
final class Failures {
    private Failures() {}

    /** Nobody listens there. */
    static boolean isUnreachable(Throwable error) {
        int depth = 0;
        for (Throwable at = error; at != null && depth < 16; at = at.getCause(), depth++) {
            if (at instanceof ConnectException
                    || at instanceof NoRouteToHostException
                    || at instanceof UnknownHostException
                    || at instanceof UnresolvedAddressException) {
                return true;
            }
        }
        return false;
    }

    /** What lies at the bottom of it, in a line. */
    static String text(Throwable error) {
        Throwable at = error;
        for (int depth = 0; at.getCause() != null && depth < 16; depth++) {
            at = at.getCause();
        }
        String text = at.getMessage() == null ? at.getClass().getSimpleName() : at.getMessage();
        // The transport names the function of the system that failed, which says nobody anything.
        return text.replaceFirst("^\\w+\\(\\.\\.\\) failed with error\\(-?\\d+\\): ", "");
    }

    /** The service's own error, or that of a whole message. */
    static NoAnswer of(int code, String text) {
        Status.Code known = Status.fromCodeValue(code).getCode();
        NoAnswer.Kind kind =
                switch (known) {
                    // They say that the question is wrong, not that the service is ill.
                    case INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED, UNAUTHENTICATED ->
                            NoAnswer.Kind.REFUSED;
                    default -> NoAnswer.Kind.FAILED;
                };
        return new NoAnswer(kind, known + ": " + text);
    }

    /** Whether no answer of a service stands behind it. */
    static boolean isOfTheConnection(Status status) {
        return status.getCode() == Status.Code.UNAVAILABLE && status.getCause() != null;
    }
}
