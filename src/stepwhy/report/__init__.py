"""stepwhy.report"""
