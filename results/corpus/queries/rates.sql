-- Rates: by version, workload and kind of anomaly, how many of the decided races showed it. Controls are no tries.
-- The interval is that of broken of decided tries.
WITH tries AS (
  SELECT system, workload, COUNT(*) AS tried, COUNT(DISTINCT run) AS runs
  FROM races WHERE decided AND mode <> 'single' GROUP BY system, workload
), kinds AS (
  SELECT system, workload, kind, COUNT(*) AS broken, COUNT(DISTINCT run) AS broken_runs
  FROM races LATERAL VIEW explode(anomalies) AS kind
  WHERE decided AND mode <> 'single' GROUP BY system, workload, kind
)
SELECT t.system, t.workload, k.kind, COALESCE(k.broken, 0) AS broken, t.tried, COALESCE(k.broken_runs, 0) AS broken_runs, t.runs
FROM tries t LEFT JOIN kinds k ON k.system = t.system AND k.workload = t.workload
ORDER BY system, workload, broken DESC, kind
