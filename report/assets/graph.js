// The dependency graph: two sizes of zoom each way, and the kin of the node under pointer or focus.
(() => {
  const svg = document.getElementById("dependency-graph");
  if (!svg) return;
  const frame = svg.parentElement;
  let zoom = 1;
  const size = (factor) => {
    zoom = Math.min(4, Math.max(0.5, zoom * factor));
    svg.style.width = `${100 * zoom}%`;
    svg.style.minWidth = zoom === 1 ? "" : "0";
  };
  document.getElementById("graph-larger").addEventListener("click", () => size(1.5));
  document.getElementById("graph-smaller").addEventListener("click", () => size(1 / 1.5));
  const edges = [...svg.querySelectorAll(".edges path.solid")], nodes = [...svg.querySelectorAll("a.node")];
  const reach = (label, from, to) => {
    const seen = new Set([label]), todo = [label];
    while (todo.length) {
      const at = todo.pop();
      for (const edge of edges) {
        if (edge.dataset[from] === at && !seen.has(edge.dataset[to])) { seen.add(edge.dataset[to]); todo.push(edge.dataset[to]); }
      }
    }
    return seen;
  };
  const trace = (label) => {
    const above = reach(label, "to", "from"), below = reach(label, "from", "to");
    frame.classList.add("tracing");
    for (const node of nodes) node.classList.toggle("kin", above.has(node.dataset.label) || below.has(node.dataset.label));
    for (const edge of edges) {
      const up = above.has(edge.dataset.from) && above.has(edge.dataset.to);
      edge.classList.toggle("kin", up || (below.has(edge.dataset.from) && below.has(edge.dataset.to)));
    }
  };
  const rest = () => frame.classList.remove("tracing");
  for (const node of nodes) {
    for (const event of ["focus", "pointerenter"]) node.addEventListener(event, () => trace(node.dataset.label));
    for (const event of ["blur", "pointerleave"]) node.addEventListener(event, rest);
  }
})();
