"""Sentences of a result: each reason and note in words, for every report and for the JSON.

Diagnoses and predictions write their own titles, advice and abstentions.
"""
