"""Reading spans back, from OTLP files, Jaeger and Tempo, into one model of a span.

Start at ``open``; ``model`` has what is read.
"""
