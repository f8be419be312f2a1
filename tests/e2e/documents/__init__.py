"""The commands of the documents, run from the documents."""
