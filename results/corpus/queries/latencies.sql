-- Latencies: by version, kind and outcome of operations, in milliseconds. Operations that never ended are left out.
SELECT system, f, type, COUNT(*) AS operations,
       percentile_approx(completed - invoked, 0.5) / 1e6 AS p50_ms, percentile_approx(completed - invoked, 0.99) / 1e6 AS p99_ms,
       MAX(completed - invoked) / 1e6 AS max_ms
FROM operations WHERE completed IS NOT NULL
GROUP BY system, f, type
ORDER BY system, f, type
