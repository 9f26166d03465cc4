// One question on its way, and whoever waits for its answer.

import type { AcquireRequest, AcquireResponse } from "../gen/holdoff/v1/coordinator_pb.js";

/** Why there is no answer. */
export type NoAnswer =
  /** Not connected. */
  | { readonly kind: "away" }
  /** Too many questions wait. */
  | { readonly kind: "busy" }
  /** The connection broke. */
  | { readonly kind: "lost" }
  /** No answer in time; `isSent`: the question may have arrived. */
  | { readonly kind: "late"; readonly isSent: boolean }
  /** The service refused it, with a gRPC code. */
  | { readonly kind: "failed"; readonly code: number; readonly text: string }
  /** The caller gave it up. */
  | { readonly kind: "abandoned"; readonly isSent: boolean };

export type Reply = { readonly response: AcquireResponse } | { readonly no: NoAnswer };

export const AWAY: Reply = { no: { kind: "away" } };
export const BUSY: Reply = { no: { kind: "busy" } };
export const LOST: Reply = { no: { kind: "lost" } };

/** Whether the service may have taken a question that it did not answer. */
export function mayHaveArrived(no: NoAnswer): boolean {
  return no.kind === "lost" || ((no.kind === "late" || no.kind === "abandoned") && no.isSent);
}

export function noAnswerText(no: NoAnswer): string {
  switch (no.kind) {
    case "away":
      return "not connected";
    case "busy":
      return "too many questions wait";
    case "lost":
      return "the connection broke";
    case "late":
      return "no answer in time";
    case "failed":
      return `gRPC code ${no.code}: ${no.text.slice(0, 200)}`;
    case "abandoned":
      return "given up by the caller";
  }
}

export class Ask {
  readonly request: AcquireRequest;
  /** It may have reached the service. */
  isSent = false;
  #settle: ((reply: Reply) => void) | null;

  constructor(request: AcquireRequest, settle: (reply: Reply) => void) {
    this.request = request;
    this.#settle = settle;
  }

  /** Somebody still waits. */
  get isWaiting(): boolean {
    return this.#settle !== null;
  }

  /** False: nobody waits any longer. */
  settle(reply: Reply): boolean {
    const settle = this.#settle;
    this.#settle = null;
    settle?.(reply);
    return settle !== null;
  }
}
