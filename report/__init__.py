"""The report: evidence in, one HTML page and one LaTeX paper out.

    theorem table + evidence fragments -> evidence.json -> sections -> {index.html, bayesgrad.tex}

Nothing here decides what is true. A status is computed from what the routes wrote; a number is printed only if a
fragment or a record holds it.
"""
