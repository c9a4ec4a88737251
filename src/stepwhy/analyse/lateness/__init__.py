"""Which ranks make others wait, and what they do meanwhile: the ledger of collectives."""
