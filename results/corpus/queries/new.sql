-- New: findings that were first seen at or after a time (:since, UTC; 30 days before the latest run if it is not given).
WITH latest AS (
  SELECT COALESCE(:since, CAST(CAST(MAX(started) AS TIMESTAMP) - INTERVAL 30 DAYS AS STRING)) AS since FROM runs
), first AS (
  SELECT f.cause, MIN(f.finding) AS finding, MIN(f.title) AS title, MIN(r.started) AS first_seen,
         MIN_BY(r.name, CONCAT(r.started, ' ', r.name)) AS run,
         MIN_BY(r.system, CONCAT(r.started, ' ', r.name)) AS system, COUNT(DISTINCT r.run) AS runs
  FROM findings f JOIN runs r ON r.run = f.run GROUP BY f.cause
)
SELECT f.finding, f.title, f.system, f.first_seen, f.run, f.runs FROM first f CROSS JOIN latest l
WHERE CAST(f.first_seen AS TIMESTAMP) >= CAST(l.since AS TIMESTAMP)
ORDER BY first_seen, finding
