// The theme colours the heads of sequence arrows by an id that mermaid no longer gives them.
const initialize = mermaid.initialize;
mermaid.initialize = (config) =>
  initialize({ ...config, themeCSS: `${config.themeCSS ?? ""}
    marker[id$="arrowhead"] path { fill: var(--md-mermaid-sequence-message-line-color); stroke: none; }` });
