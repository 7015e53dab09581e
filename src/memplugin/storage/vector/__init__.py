"""Search in a workspace, and the index that keeps the vectors.

``chroma`` keeps vectors, ``directory`` holds what search needs of a workspace in memory, and
``search`` finds records by vector and by words.
"""
