"""GemFilter on your model: find its filter layer, answer questions, measure what filtering costs and saves.

A module a command: `calibrate`, `answer`, `score`, `longbench`, `bench`, each with a function of that name.
"""
