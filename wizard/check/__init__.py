"""Hold a pasted or kept vLLM command against a release: find it, judge it, repair it."""
