"""pyredisson measured side by side with its peers: ``python -m benchmarks``.

Rules that every figure keeps:

- Contestants meet in one run, on one private server, one at a time, in a new random order each round. What is
  compared is the median over the rounds of the ratio within a round: a machine that is slow for a while is so for all.
- Every contestant proves that it does the work: a stranger is refused while it holds the lock, the key is gone
  afterwards, and the server counted as many releases as the contestant says it made.
- The bound stands next to the figure, and the verdict is "pass" or "short".
"""
