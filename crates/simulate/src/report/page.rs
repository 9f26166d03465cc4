//! The page around a report: its head, its style, its end.
//!
//! One column, so that it reads on a phone; tables and charts scroll within themselves where the
//! screen is narrower than they are. Colours follow the reader's scheme.

use crate::plot::escaped;

const STYLE: &str = r"
:root{--ground:#fff;--ink:#222226;--soft:#5b5b66;--line:#d8d8de;--panel:#f5f5f7;--good:#0b7a4b;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ground:#1b1b1f;--ink:#e4e4e8;--soft:#a9a9b4;--line:#3a3a42;--panel:#25252b;--good:#4cc38a;--bad:#ff8a80}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main{max-width:64rem;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;margin:.5rem 0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:2rem 0 .5rem;overflow-wrap:anywhere}
p{max-width:44rem;overflow-wrap:anywhere}
dl{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:0}
dt{color:var(--soft);font-size:.85rem}
dd{margin:0;font-variant-numeric:tabular-nums}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding-bottom:.3rem}
th,td{padding:.35rem .7rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
thead th{vertical-align:bottom;white-space:normal;min-width:5rem}
th:first-child,td.text{text-align:left}
tbody th{font-weight:600;min-width:8rem;max-width:14rem;white-space:normal;overflow-wrap:anywhere;position:sticky;left:0;background:var(--ground)}
.holds{color:var(--good)}.missed{color:var(--bad);font-weight:600}
.plot{display:block;width:100%;min-width:36rem;height:auto}
figure{margin:0}figcaption{color:var(--soft);font-size:.85rem}
pre{background:var(--panel);padding:.7rem;overflow-x:auto}
";

/// `body` as a page of this title.
pub fn around(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escaped(title)
    )
}
