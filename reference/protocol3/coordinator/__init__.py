"""Operations (one per route), background loops, and the HTTP edge."""
