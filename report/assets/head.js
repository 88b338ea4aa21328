// A head with two queries, three keys and values in the plane. Every line of `compute` is one of the report's laws:
//   a = softmax(s),  b_ij = u_i . v_j,  A_ij = sum_k a_ik b_ik - b_ij,  ds_ij = eta a_ij A_ij,
//   dv_j = -eta sum_i a_ij u_i,  db_ij = u_i . dv_j,  dA_ij = sum_k a_ik db_ik - db_ij  (a and u held),
//   |dL/ds_ij| = a_ij |A_ij| <= a_ij (1 - a_ij) (max_j b_ij - min_j b_ij).
(() => {
  const block = document.getElementById("head-block");
  if (!block) return;
  const start = () => ({
    scores: [[1, 0, -0.5], [0.2, 0.9, 0]],
    values: [[-1, 0.9], [1.2, 0.6], [0.3, -1.2]],
    upstream: [[0.8, -0.5], [-0.4, -0.9]],
    eta: 0.5,
  });
  let state = start();
  const dot = (x, y) => x.reduce((sum, value, n) => sum + value * y[n], 0);
  const softmax = (row) => {
    const top = Math.max(...row), raised = row.map((value) => Math.exp(value - top));
    const total = raised.reduce((sum, value) => sum + value, 0);
    return raised.map((value) => value / total);
  };
  const centred = (weights, row) => { const mean = dot(weights, row); return row.map((value) => mean - value); };
  const compute = ({ scores, values, upstream, eta }) => {
    const weights = scores.map(softmax);
    const compatibility = upstream.map((u) => values.map((v) => dot(u, v)));
    const advantage = compatibility.map((row, i) => centred(weights[i], row));
    const gradient = advantage.map((row, i) => row.map((value, j) => -weights[i][j] * value));
    const scoreStep = gradient.map((row) => row.map((value) => -eta * value));
    const valueGradient = values.map((_, j) => [0, 1].map((c) => upstream.reduce((sum, u, i) => sum + weights[i][j] * u[c], 0)));
    const valueStep = valueGradient.map((row) => row.map((value) => -eta * value));
    const feedback = upstream.map((u, i) => centred(weights[i], valueStep.map((step) => dot(u, step))));
    const bound = compatibility.map((row, i) => row.map((_, j) =>
      weights[i][j] * (1 - weights[i][j]) * (Math.max(...row) - Math.min(...row))));
    const context = weights.map((row) => [0, 1].map((c) => row.reduce((sum, weight, j) => sum + weight * values[j][c], 0)));
    const contextStep = weights.map((row) => [0, 1].map((c) => row.reduce((sum, weight, j) => sum + weight * valueStep[j][c], 0)));
    return { weights, compatibility, advantage, gradient, scoreStep, valueGradient, valueStep, feedback, bound, context, contextStep };
  };

  // ---- drawing
  const SCALE = 70, svg = document.getElementById("head-plane"), NS = "http://www.w3.org/2000/svg";
  const make = (tag, attributes, parent = svg) => {
    const element = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    parent.append(element);
    return element;
  };
  const text = (element, words) => { element.textContent = words; return element; };
  const pixel = ([x, y]) => [x * SCALE, -y * SCALE];
  const defs = make("defs", {});
  for (const name of ["upstream", "step"]) {
    const marker = make("marker", {
      id: `head-${name}`, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse",
    }, defs);
    make("path", { d: "M0 0.6 7.4 4 0 7.4z", class: `tip-${name}` }, marker);
  }
  for (let n = -2; n <= 2; n += 1) {
    make("line", { x1: n * SCALE, x2: n * SCALE, y1: -155, y2: 155, class: n ? "grid" : "axis" });
    make("line", { y1: n * SCALE, y2: n * SCALE, x1: -155, x2: 155, class: n ? "grid" : "axis" });
  }
  const drawn = { stems: [], steps: [], contexts: [], contextSteps: [], handles: [] };
  state.upstream.forEach(() => drawn.stems.push(make("line", { class: "upstream", "marker-end": "url(#head-upstream)" })));
  state.values.forEach(() => drawn.steps.push(make("line", { class: "step", "marker-end": "url(#head-step)" })));
  state.upstream.forEach((_, i) => {
    drawn.contextSteps.push(make("line", { class: "step", "marker-end": "url(#head-step)" }));
    const group = make("g", { class: "context" });
    make("rect", { x: -5, y: -5, width: 10, height: 10, transform: "rotate(45)" }, group);
    text(make("text", { x: 10, y: 4 }, group), `g${"₁₂"[i]}`);
    drawn.contexts.push(group);
  });
  const handle = (kind, n, label) => {
    const group = make("g", { class: `handle ${kind}`, tabindex: 0, role: "button", "data-kind": kind, "data-n": n });
    make("circle", { r: 20, class: "reach" }, group);
    if (kind === "values") make("circle", { r: 8, class: "dot" }, group);
    else make("rect", { x: -6, y: -6, width: 12, height: 12, class: "dot" }, group);
    text(make("text", { x: 12, y: -8 }, group), label);
    drawn.handles.push(group);
    return group;
  };
  state.values.forEach((_, j) => handle("values", j, `v${"₁₂₃"[j]}`));
  state.upstream.forEach((_, i) => handle("upstream", i, `u${"₁₂"[i]}`));

  const line = (element, from, to) => {
    const [x1, y1] = pixel(from), [x2, y2] = pixel(to);
    for (const [name, value] of [["x1", x1], ["y1", y1], ["x2", x2], ["y2", y2]]) element.setAttribute(name, value.toFixed(2));
    element.style.display = Math.hypot(x2 - x1, y2 - y1) < 1.5 ? "none" : "";
  };
  const at = (element, place) => element.setAttribute("transform", `translate(${pixel(place).map((value) => value.toFixed(2)).join(" ")})`);
  const add = (x, y) => x.map((value, n) => value + y[n]);
  const show = (value, digits = 3) => {
    const shown = Math.abs(value) < 0.5 * 10 ** -digits ? (0).toFixed(digits) : value.toFixed(digits);
    return shown.replace("-", "−");
  };
  const cells = new Map([...block.querySelectorAll("tr[data-pair]")].map((row) => [row.dataset.pair, [...row.querySelectorAll("td")]]));
  let made = null;
  const draw = () => {
    made = compute(state);
    state.values.forEach((value, j) => { at(drawn.handles[j], value); line(drawn.steps[j], value, add(value, made.valueStep[j])); });
    state.upstream.forEach((u, i) => {
      at(drawn.handles[3 + i], u);
      line(drawn.stems[i], [0, 0], u);
      at(drawn.contexts[i], made.context[i]);
      line(drawn.contextSteps[i], made.context[i], add(made.context[i], made.contextStep[i]));
    });
    for (const group of drawn.handles) {
      const [x, y] = state[group.dataset.kind][group.dataset.n];
      const name = `${group.lastElementChild.textContent}, ${group.dataset.kind === "values" ? "value" : "upstream gradient"}`;
      group.setAttribute("aria-label", `${name} at ${show(x, 2)}, ${show(y, 2)}; arrow keys move it`);
    }
    for (const [pair, row] of cells) {
      const [i, j] = pair.split(",").map(Number);
      const sign = made.feedback[i][j] > 1e-12 ? "↑ " : made.feedback[i][j] < -1e-12 ? "↓ " : "= ";
      row[0].textContent = show(made.weights[i][j]);
      row[0].style.setProperty("--share", `${(100 * made.weights[i][j]).toFixed(1)}%`);
      row[1].textContent = show(made.compatibility[i][j]);
      row[2].textContent = show(made.advantage[i][j]);
      row[3].textContent = (made.scoreStep[i][j] > 1e-12 ? "↑ " : made.scoreStep[i][j] < -1e-12 ? "↓ " : "= ") + show(made.scoreStep[i][j]);
      row[4].textContent = sign + show(made.feedback[i][j]);
      row[5].textContent = show(Math.abs(made.gradient[i][j]));
      row[6].textContent = show(made.bound[i][j]);
      document.getElementById(`shown-${i}-${j}`).textContent = show(state.scores[i][j], 2);
    }
    document.getElementById("shown-eta").textContent = show(state.eta, 2);
  };
  const knobs = () => {
    for (const knob of block.querySelectorAll("[data-score]")) {
      const [i, j] = knob.dataset.score.split(",").map(Number);
      knob.value = state.scores[i][j];
    }
    document.getElementById("head-eta").value = state.eta;
  };

  // ---- hands
  for (const knob of block.querySelectorAll("[data-score]")) {
    const [i, j] = knob.dataset.score.split(",").map(Number);
    knob.addEventListener("input", () => { state.scores[i][j] = Number(knob.value); draw(); });
  }
  document.getElementById("head-eta").addEventListener("input", (event) => { state.eta = Number(event.target.value); draw(); });
  document.getElementById("head-reset").addEventListener("click", () => { state = start(); knobs(); draw(); });
  const LIMIT = 2.15, held = (value) => Math.max(-LIMIT, Math.min(LIMIT, value));
  const move = (group, x, y) => { state[group.dataset.kind][group.dataset.n] = [held(x), held(y)]; draw(); };
  for (const group of drawn.handles) {
    group.addEventListener("pointerdown", (event) => { group.setPointerCapture(event.pointerId); event.preventDefault(); group.focus(); });
    group.addEventListener("pointermove", (event) => {
      if (!group.hasPointerCapture(event.pointerId)) return;
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      move(group, place.x / SCALE, -place.y / SCALE);
    });
    group.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!by) return;
      event.preventDefault();
      const [x, y] = state[group.dataset.kind][group.dataset.n], size = event.shiftKey ? 0.25 : 0.05;
      move(group, x + size * by[0], y + size * by[1]);
    });
  }
  knobs();
  draw();
  block.head = () => ({ state: structuredClone(state), made: structuredClone(made) });
})();
