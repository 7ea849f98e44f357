"""Programs in C and C++ that are written for one robot: templates of their files, and functions that fill them.

The folder ``templates`` contains the files; `source_files` replaces their placeholders, words that begin with
``QD_``, and writes the values of records as C arrays.  `quaddyn.wbc.export` and `quaddyn.runtime.exports`
select the functions and values that are exported.
"""
