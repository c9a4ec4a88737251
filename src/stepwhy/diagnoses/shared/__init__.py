"""Helpers that several diagnoses share. No diagnosis imports another."""
