"""stepwhy.capture"""
