#include "server/http/html_page.h"

#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr const char* kBeforeTitle = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>)";

constexpr const char* kStyle = R"(
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
.lines { display:grid; grid-template-columns:repeat(auto-fill,minmax(11rem,1fr)); gap:.8rem 1.4rem } .cell .lines { grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr)) } .line svg { width:100%; height:2.2rem; margin-top:.2rem } .line svg.tb { width:150px; height:44px } .line dd { font-size:1.05rem } .line .curve { vector-effect:non-scaling-stroke; stroke-linecap:round; stroke-linejoin:round }
.cells { display:grid; grid-template-columns:repeat(auto-fill,minmax(min(30rem,100%),1fr)); gap:.9rem 2rem } .cell { border-top:1px solid var(--line); padding-top:.5rem } h4 { font-size:.95rem } h4 .faint { font-weight:400 } .cell p { font-size:.85rem; margin-top:.3rem } .text { overflow-wrap:anywhere; min-width:14rem }
summary { cursor:pointer } td .lines { margin-top:0 } p { margin-top:.5rem }
svg { display:block } .curve { fill:none; stroke:var(--mark); stroke-width:1.6 } .dot { fill:var(--mark) } .rule { stroke:var(--line) } svg text { fill:var(--faint); font:10px system-ui,sans-serif }
pre { font:13px/1.45 ui-monospace,monospace; overflow-x:auto }
@media (max-width: 40rem) { body { padding:1rem .7rem } section { padding:.8rem .8rem } dl { gap:.5rem 1.3rem } .lines, .cell .lines { grid-template-columns:repeat(2,1fr); gap:.7rem 1rem } table { font-size:.8rem } td, th { padding-right:.4rem } td.num, th.num { font-size:.72rem } .phases :is(td,th):nth-child(2) { display:none } }
footer { color:var(--faint); font-size:.85rem } a { color:inherit }
</style></head><body><main id="page">
)";

std::string Refresh(PageRefresh refresh) {
  if (refresh.script.empty()) return "";
  return "<script src=\"" + Escaped(refresh.script) +
         "\" defer></script><noscript><meta http-equiv=\"refresh\" content=\"" +
         std::to_string(refresh.seconds) + "\"></noscript>";
}

}  // namespace

std::string PageHead(std::string_view title, PageRefresh refresh) {
  return kBeforeTitle + Escaped(title) + "</title>" + Refresh(refresh) + kStyle;
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
      case '\n':
      case '\t':
        out += c;
        break;
      default:
        // A control character is none of HTML's.
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    }
  }
  return out;
}

std::string PathPart(std::string_view name) {
  constexpr std::string_view kAsTheyAre = "-._~";
  std::string part;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       kAsTheyAre.find(c) != kAsTheyAre.npos;
    part += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return part;
}

}  // namespace cellbatch
