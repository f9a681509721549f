"""What can be done on the local GitHub, by people and by programs alike.

Each act checks what GitHub checks, changes the records, writes the timeline and tells the Apps.
Callers hold no lock; every act takes the world's own.
"""
