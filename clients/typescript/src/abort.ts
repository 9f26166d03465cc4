// Hearing of an abort. A signal that many calls share, as that of a process which shuts down, gets one
// listener from here however many of them wait: with more than ten Node.js would warn of a leak.

const heard = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls back when the signal is aborted, until the returned function is called. */
export function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void {
  if (signal === undefined) return NOTHING;
  const callbacks = heard.get(signal) ?? listen(signal);
  callbacks.add(callback);
  return () => callbacks.delete(callback);
}

const NOTHING = () => {};

function listen(signal: AbortSignal): Set<() => void> {
  const callbacks = new Set<() => void>();
  heard.set(signal, callbacks);
  const tell = () => {
    for (const callback of [...callbacks]) callback();
    callbacks.clear();
  };
  signal.addEventListener("abort", tell, { once: true });
  return callbacks;
}
