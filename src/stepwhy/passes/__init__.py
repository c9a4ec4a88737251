"""stepwhy.passes"""
