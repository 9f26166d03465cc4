package io.holdoff.client;

import java.net.http.HttpResponse;
import java.util.concurrent.Flow;

/**
 * The response that may not be the last one of its call. A body that is a stream holds a connection
 * until it is closed, and of all responses but the returned one nobody else can.
 */
final class LastResponse<T> {
    /** Null: there was none, or it is left. */
    private HttpResponse<T> response;

    synchronized HttpResponse<T> keep(HttpResponse<T> came) {
        response = came;
        return came;
    }

    /** There is another attempt, or the call ends without it. */
    void leave() {
        HttpResponse<T> left;
        synchronized (this) {
            left = response;
            response = null;
        }
        if (left != null) {
            close(left.body());
        }
    }

    static void close(Object body) {
        if (body instanceof AutoCloseable stream) {
            try {
                stream.close();
            } catch (Exception broken) {
                // Then it holds nothing.
            }
        } else if (body instanceof Flow.Publisher<?> publisher) {
            publisher.subscribe(new Unwanted());
        }
    }

    /** What was never subscribed to cannot be cancelled. */
    private static final class Unwanted implements Flow.Subscriber<Object> {
        @Override
        public void onSubscribe(Flow.Subscription subscription) {
            subscription.cancel();
        }

        @Override
        public void onNext(Object part) {}

        @Override
        public void onError(Throwable broken) {}

        @Override
        public void onComplete() {}
    }
}
