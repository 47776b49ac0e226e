-- Tries: every run that tried a finding's statements, with what it showed. A view for other questions.
-- A race tries a finding if the same statements met, every check decided, nothing broke, and the run had the finding's fault.
-- Seen or not, a run that broke counts with the finding's own rate.
WITH seen AS (
  SELECT f.run, f.system, f.cause, MIN(f.finding) AS finding, MIN(f.title) AS title, MIN(f.unit) AS unit,
         SUM(f.broken) AS broken, SUM(f.tried) AS tried
  FROM findings f GROUP BY f.run, f.system, f.cause
), raced AS (
  SELECT DISTINCT cause, fault, side FROM findings LATERAL VIEW explode(sides) AS side WHERE unit = 'race'
), held AS (
  SELECT r.run, r.system, s.cause, COUNT(*) AS tried
  FROM races r JOIN raced s ON r.statements = s.side
  WHERE r.decided AND NOT r.broken AND r.mode <> 'single'
    AND (s.fault IS NULL OR forall(split(s.fault, '[+]'), one -> array_contains(r.nemeses, one)))
  GROUP BY r.run, r.system, s.cause
), conditions AS (
  SELECT DISTINCT f.cause, r.workloads, r.nemeses FROM findings f JOIN runs r ON r.run = f.run WHERE f.unit = 'run'
), valid AS (
  SELECT r.run, r.system, c.cause, 1 AS tried
  FROM runs r JOIN conditions c ON c.workloads = r.workloads AND c.nemeses = r.nemeses
  WHERE r.valid = 'valid' AND r.mode <> 'single'
), every_try AS (
  SELECT run, system, cause, broken, tried FROM seen
  UNION ALL SELECT h.run, h.system, h.cause, 0, h.tried FROM held h LEFT ANTI JOIN seen s ON s.run = h.run AND s.cause = h.cause
  UNION ALL SELECT v.run, v.system, v.cause, 0, v.tried FROM valid v LEFT ANTI JOIN seen s ON s.run = v.run AND s.cause = v.cause
)
SELECT b.cause, b.system, b.run, r.name, r.started, b.broken, b.tried FROM every_try b JOIN runs r ON r.run = b.run
