"""stepwhy.engine"""
