"""stepwhy.diagnoses"""
