-- Findings: by cause and version, in how many of its tries it showed, and when it was first and last seen.
-- The interval is that of broken of decided tries.
WITH names AS (
  SELECT cause, MIN(finding) AS finding, MIN(title) AS title, MIN(unit) AS unit FROM findings GROUP BY cause
)
SELECT n.finding, n.title, n.unit, t.system, SUM(t.broken) AS broken, SUM(t.tried) AS tried, COUNT(*) AS runs,
       MIN(CASE WHEN t.broken > 0 THEN t.started END) AS first_seen, MAX(CASE WHEN t.broken > 0 THEN t.started END) AS last_seen
FROM tries t JOIN names n ON n.cause = t.cause
GROUP BY n.finding, n.title, n.unit, t.system
ORDER BY finding, system
