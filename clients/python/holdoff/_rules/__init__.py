"""The pure rules: what is decided, given what is known, the time and a draw.

Nothing in here reads a clock, draws a random number, takes a lock or does I/O. Times are
whole nanoseconds from an arbitrary origin. Every rule is checked by the vectors that all
languages share (`docs/vectors.md`).
"""
