-- Slowest: by version and phase, how long it took, and the run that took longest.
SELECT system, phase, COUNT(*) AS runs, percentile(p.seconds, 0.5) AS median_s, percentile(p.seconds, 0.99) AS p99_s,
       MAX(p.seconds) AS max_s, MAX_BY(r.name, p.seconds) AS run
FROM phases p JOIN (SELECT run, name FROM runs) r ON r.run = p.run
GROUP BY system, phase
ORDER BY max_s DESC, system, phase
