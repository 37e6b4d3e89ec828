#include "server/http/html_page.h"

namespace cellbatch {

namespace {

constexpr const char* kBeforeTitle = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>)";

constexpr const char* kBehindTitle = R"(</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root { --ground:#f7f7f4; --card:#fff; --ink:#1d2022; --faint:#6d7478; --line:#e2e3de; --mark:#0b6e5f; --soft:#d8ece7; --bad:#b3261e; --wait:#9a6700; }
@media (prefers-color-scheme: dark) { :root { --ground:#121516; --card:#1a1e20; --ink:#e6e8e6; --faint:#8f989c; --line:#2b3134; --mark:#4fc3ae; --soft:#173a35; --bad:#ff8a80; --wait:#e3b341; } }
* { box-sizing:border-box; margin:0 }
body { background:var(--ground); color:var(--ink); font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif; padding:2rem clamp(1rem,4vw,3rem); max-width:78rem; margin:auto }
header { display:flex; flex-wrap:wrap; align-items:baseline; gap:.4rem 1.2rem; margin-bottom:1.6rem }
h1 { font-size:1.35rem; letter-spacing:-.01em } h2 { font-size:1.1rem } h3 { font-size:.8rem; font-weight:600; color:var(--faint); margin:1.3rem 0 .4rem }
.faint { color:var(--faint) } .num { font-variant-numeric:tabular-nums; text-align:right; white-space:nowrap }
.state { display:inline-flex; align-items:center; gap:.45em; font-weight:600 } .state::before { content:""; width:.62em; height:.62em; border-radius:50%; background:currentColor }
.good { color:var(--mark) } .bad { color:var(--bad) } .wait { color:var(--wait) }
section { background:var(--card); border:1px solid var(--line); border-radius:10px; padding:1.1rem 1.3rem; margin-bottom:1.1rem; overflow-x:auto }
.title { display:flex; flex-wrap:wrap; gap:.3rem 1rem; align-items:baseline }
dl { display:flex; flex-wrap:wrap; gap:.6rem 2.2rem; margin-top:.8rem } dt { color:var(--faint); font-size:.8rem } dd { font-size:1.25rem; font-variant-numeric:tabular-nums; line-height:1.25 } dd small { font-size:.8rem; color:var(--faint) }
table { border-collapse:collapse; width:100% } th { font-weight:500; color:var(--faint); font-size:.8rem; text-align:left; padding:.15rem 1.1rem .25rem 0 } td { padding:.3rem 1.1rem .3rem 0; border-top:1px solid var(--line) } th.num { text-align:right } tr>:last-child { padding-right:0 }
.bar { display:inline-block; width:7rem; height:.5rem; border-radius:4px; background:var(--soft); overflow:hidden; vertical-align:middle; margin-right:.6rem } .bar i { display:block; height:100%; background:var(--mark) }
svg { display:block } .curve { fill:none; stroke:var(--mark); stroke-width:1.6 } .dot { fill:var(--mark) } .rule { stroke:var(--line) } svg text { fill:var(--faint); font:10px system-ui,sans-serif }
pre { font:13px/1.45 ui-monospace,monospace; overflow-x:auto }
footer { color:var(--faint); font-size:.85rem } a { color:inherit }
</style></head><body><main id="page">
)";

}  // namespace

std::string PageHead(std::string_view title) {
  return kBeforeTitle + Escaped(title) + kBehindTitle;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace cellbatch
