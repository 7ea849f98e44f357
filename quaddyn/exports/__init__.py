"""Programs in C and C++ that are written for one robot: templates of their files, and functions that fill them.

`templates` has the files, in which words that begin with ``QD_`` are replaced; `source_files` fills them, and
`static_data` writes the arrays of records.  What is exported, and with which numbers, is in `quaddyn.wbc.export` and
`quaddyn.runtime.exports`.
"""
