-- Regressions: a finding was seen on a version, then held in so many tries that the old rate would have shown it with 95 %, then was seen again.
-- Enough is m >= ln 0.05 / ln(1 - low), with the lower end of Wilson's interval of the rate until then.
WITH ordered AS (
  SELECT *, SUM(CASE WHEN broken > 0 THEN 1 ELSE 0 END) OVER (
    PARTITION BY cause, system ORDER BY started, name ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS sightings FROM tries WHERE tried > 0
), spans AS (
  SELECT cause, system, COALESCE(sightings, 0) AS span,
         SUM(CASE WHEN broken = 0 THEN tried ELSE 0 END) AS held, SUM(broken) AS broken,
         SUM(CASE WHEN broken > 0 THEN tried ELSE 0 END) AS tried,
         MAX(CASE WHEN broken > 0 THEN started END) AS seen_at, MAX(CASE WHEN broken > 0 THEN name END) AS run
  FROM ordered GROUP BY cause, system, COALESCE(sightings, 0)
), earlier AS (
  SELECT *, SUM(broken) OVER w AS old_broken, SUM(tried) OVER w AS old_tried FROM spans
  WINDOW w AS (PARTITION BY cause, system ORDER BY span ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), bounds AS (
  SELECT *, old_broken / old_tried AS p, 3.841458820694124D / old_tried AS z FROM earlier WHERE broken > 0 AND old_broken > 0
), needed AS (
  SELECT *, (p + z / 2 - SQRT(p * (1 - p) * z + z * z / 4)) / (1 + z) AS low FROM bounds
), names AS (
  SELECT cause, MIN(finding) AS finding, MIN(title) AS title FROM findings GROUP BY cause
)
SELECT n.finding, n.title, d.system, d.run, d.seen_at, d.held, CEIL(LN(0.05D) / LN(1 - d.low)) AS needed
FROM needed d JOIN names n ON n.cause = d.cause
WHERE d.held >= CEIL(LN(0.05D) / LN(1 - d.low))
ORDER BY seen_at, finding
