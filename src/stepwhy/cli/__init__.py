"""stepwhy.cli"""
