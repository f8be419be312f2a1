"""Warnings and errors as data: the codes, their explanations, and the text that carries a code."
" (docs/adr/115)"""
