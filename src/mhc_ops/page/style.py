"""The look of the page, in light and in dark."""

CSS = """
:root { --paper: #fbfaf7; --card: #ffffff; --ink: #22252b; --soft: #6a6f7a; --grid: #e6e4de;
  --axis: #a9a69e; --none: #d8d5cd; --warn: #a3541b;
  --s1: #2f6fb2; --s2: #c4552d; --s3: #3d8f5f; --s4: #8a5bb0; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { :root { --paper: #15171c; --card: #1d2027; --ink: #e8e6e1;
  --soft: #9aa0ab; --grid: #2d313a; --axis: #5a606c; --none: #3a3e47; --warn: #e29a62;
  --s1: #6fa8e6; --s2: #ec8a63; --s3: #6cc292; --s4: #bb95dd; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.5;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 4px; }
h3 { font-size: 15px; margin: 0 0 8px; font-weight: 600; }
p { margin: 0 0 14px; color: var(--soft); max-width: 82ch; }
p.note { color: var(--warn); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin: 20px 0 0; }
.tile, figure { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; }
.tile { padding: 12px 16px; } .tile b { display: block; font-size: 22px; font-weight: 600; }
.tile span { color: var(--soft); font-size: 13px; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 460px), 1fr));
  gap: 16px; }
figure { margin: 0; padding: 16px 16px 12px; } 
figure svg { display: block; width: 100%; height: auto; }
.maps { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 12px; }
.maps figure { padding: 10px; } .maps h3 { font-size: 12px; margin: 0 0 2px; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; }
svg.bar { width: 300px; max-width: 100%; display: block; margin: 0 0 10px; }
text { fill: var(--soft); font-size: 11.5px; font-family: system-ui, "Segoe UI", sans-serif; }
text.label { fill: var(--ink); font-size: 12.5px; }
text.inside { fill: #f6f4ee; font-size: 10.5px; } text.inside.dark { fill: #1b1d22; }
text.turned { writing-mode: vertical-rl; }
.grid { stroke: var(--grid); } .axis { stroke: var(--axis); }
.mark { stroke: var(--soft); stroke-dasharray: 2 4; }
.s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); } .s4 { --c: var(--s4); }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.line.s1 { stroke-width: 4; }
.line.thin { stroke-width: 1.3; stroke-dasharray: 5 4; }
.dot { fill: var(--c); } .band { fill: var(--c); opacity: 0.16; }
.paper { fill: var(--paper); } .cell.none, .cell.bad { fill: var(--none); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 6px 0 0 8px; font-size: 13px; }
.key { display: inline-block; width: 18px; border-top: 3px solid var(--c); margin-right: 6px;
  vertical-align: middle; } .key.thin { border-top: 2px dashed var(--c); }
.warn { color: var(--warn); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; width: 100%; }
th, td { text-align: right; padding: 4px 12px; border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 500; } th:nth-child(2), td:nth-child(2) { text-align: left; }
footer { margin-top: 40px; color: var(--soft); font-size: 13px; }
"""
