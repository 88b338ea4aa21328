"""The statement of every result as TeX, generated from the claims that were proved. Do not edit."""

STATEMENTS: dict[str, str] = {
    "lemma.log-bound": (
        "t - 1 - \\log t \\ge 0"
    ),
    "lemma.gibbs": (
        "0 \\le \\sum_{y=1}^{m} S_{y} \\, p_{y} \\, \\left(\\log p_{y} - \\log q_{y}\\right)"
    ),
    "lemma.variance-form": (
        "\\sum_{j=1}^{m} a_{j} \\, h_{j}^{2} - {\\left(\\sum_{j=1}^{m} a_{j} \\, h_{j}\\right)}^{2} = "
        "\\tfrac{1}{2} \\, \\sum_{j=1}^{m}\\, \\sum_{k=1}^{m} a_{j} \\, a_{k} \\, \\left(h_{j} - "
        "h_{k}\\right)^{2}"
    ),
    "lemma.em-identity": (
        "l' - l = \\sum_{j=1}^{m} r_{j} \\, {c'}_{j} - \\sum_{j=1}^{m} r_{j} \\, c_{j} - "
        "\\sum_{j=1}^{m} r_{j} \\, \\left(\\log r_{j} - \\log {r'}_{j}\\right)"
    ),
    "bayes.chain-rule": (
        "S = -\\log J"
    ),
    "bayes.hmm-filter": (
        "\\mu_{s} = \\alpha_{s} \\qquad \\frac{\\sum_{w=1}^{W}\\, \\sum_{s=1}^{S}\\, \\sum_{r=1}^{S} "
        "J_{ws} \\, T_{sr} \\, E_{ro}}{\\sum_{s=1}^{S} \\alpha_{s}} = \\sum_{r=1}^{S} "
        "\\left(\\sum_{s=1}^{S} \\frac{\\alpha_{s} \\, T_{sr}}{\\sum_{s'=1}^{S} \\alpha_{s'}}\\right) "
        "\\, E_{ro}"
    ),
    "bayes.sticky-markov": (
        "\\frac{\\sum_{w=1}^{W}\\, \\sum_{s=1}^{S} J_{ws} \\, T_{sr}}{\\sum_{s=1}^{S} \\alpha_{s}} = "
        "\\sum_{s=1}^{S} \\frac{\\alpha_{s} \\, T_{sr}}{\\sum_{s'=1}^{S} \\alpha_{s'}} \\qquad "
        "\\sum_{x=1}^{X}\\, \\sum_{y=1}^{S} -w_{x} \\, S_{xy} \\, p_{xy} \\, \\log p_{xy} \\le "
        "\\sum_{x=1}^{X}\\, \\sum_{y=1}^{S} -w_{x} \\, S_{xy} \\, p_{xy} \\, \\log q_{xy}"
    ),
    "bayes.bijection": (
        "\\frac{N_{y} \\, \\left(V - m\\right)}{\\sum_{z=1}^{V} N_{z}} = 1 - \\sum_{k=1}^{m} "
        "\\delta_{\\mathrm{value}_{k},y}"
    ),
    "softmax.shift-invariance": (
        "\\frac{M_{ij} \\, e^{s_{ij} + c_{i}}}{\\sum_{k=1}^{m} M_{ik} \\, e^{s_{ik} + c_{i}}} = a_{ij}"
    ),
    "softmax.jacobian": (
        "\\frac{\\partial a_{ij}}{\\partial s_{lk}} = \\delta_{i,l} \\, a_{ij} \\, \\left(\\delta_{j,k} "
        "- a_{ik}\\right)"
    ),
    "softmax.fisher": (
        "0 \\le \\sum_{j=1}^{m}\\, \\sum_{k=1}^{m} h_{j} \\, \\left(\\delta_{j,k} \\, a_{ij} - a_{ij} "
        "\\, a_{ik}\\right) \\, h_{k} \\qquad \\sum_{j=1}^{m} \\frac{\\frac{\\partial a_{ij}}{\\partial "
        "s_{ik}} \\, \\frac{\\partial a_{ij}}{\\partial s_{il}}}{a_{ij}} = \\delta_{k,l} \\, a_{ik} - "
        "a_{ik} \\, a_{il} \\qquad \\sum_{k=1}^{m} \\left(\\delta_{j,k} \\, a_{ij} - a_{ij} \\, "
        "a_{ik}\\right) \\, M_{ik} = 0"
    ),
    "loss.logit-gradient": (
        "\\frac{\\partial L}{\\partial z_{ic}} = \\tau_{i} \\, p_{ic} - t_{ic}"
    ),
    "attention.weight-gradient": (
        "\\frac{\\partial L}{\\partial a_{ij}} = b_{ij}"
    ),
    "attention.routing-law": (
        "\\frac{\\partial L}{\\partial s_{ij}} = a_{ij} \\, \\left(b_{ij} - \\bar b_{i}\\right) \\qquad "
        "\\frac{\\partial L}{\\partial s_{ij}} = -a_{ij} \\, A_{ij} \\qquad \\frac{\\partial "
        "L}{\\partial s_{ij}} = \\sum_{k=1}^{m} \\frac{\\partial a_{ij}}{\\partial s_{ik}} \\, b_{ik}"
    ),
    "attention.delta-identity": (
        "\\sum_{k=1}^{m} a_{ik} \\, b_{ik} = \\sum_{c=1}^{d_{v}} u_{ic} \\, g_{ic}"
    ),
    "attention.value-law": (
        "\\frac{\\partial L}{\\partial v_{jc}} = \\sum_{i=1}^{n} a_{ij} \\, u_{ic}"
    ),
    "attention.query-law": (
        "\\frac{\\partial L}{\\partial q_{ie}} = \\varsigma \\, \\sum_{j=1}^{m} a_{ij} \\, "
        "\\left(b_{ij} - \\bar b_{i}\\right) \\, k_{je}"
    ),
    "attention.key-law": (
        "\\frac{\\partial L}{\\partial k_{je}} = \\varsigma \\, \\sum_{i=1}^{n} a_{ij} \\, "
        "\\left(b_{ij} - \\bar b_{i}\\right) \\, q_{ie}"
    ),
    "attention.upstream": (
        "\\frac{\\partial L}{\\partial g_{ic}} = \\sum_{y=1}^{C} r_{iy} \\, W^O_{cy}"
    ),
    "attention.projection-laws": (
        "\\frac{\\partial L}{\\partial W^Q_{fe}} = \\sum_{r=1}^{n} x_{rf} \\, \\varsigma \\, "
        "\\sum_{j=1}^{m} a_{rj} \\, \\left(b_{rj} - \\bar b_{r}\\right) \\, k_{je} \\qquad "
        "\\frac{\\partial L}{\\partial W^K_{fe}} = \\sum_{r=1}^{m} {x'}_{rf} \\, \\varsigma \\, "
        "\\sum_{i=1}^{n} a_{ir} \\, \\left(b_{ir} - \\bar b_{i}\\right) \\, q_{ie} \\qquad "
        "\\frac{\\partial L}{\\partial W^V_{fc}} = \\sum_{r=1}^{m} {x'}_{rf} \\, \\sum_{i=1}^{n} a_{ir} "
        "\\, u_{ic} \\qquad \\frac{\\partial L}{\\partial W^O_{cy}} = \\sum_{i=1}^{n} g_{ic} \\, r_{iy}"
    ),
    "attention.input-law": (
        "\\frac{\\partial L}{\\partial x_{if}} = \\sum_{h=1}^{d_{k}} \\varsigma \\, "
        "\\left(\\sum_{j=1}^{n} a_{ij} \\, \\left(b_{ij} - \\bar b_{i}\\right) \\, k_{jh}\\right) \\, "
        "W^Q_{fh} + \\sum_{h=1}^{d_{k}} \\varsigma \\, \\left(\\sum_{i'=1}^{n} a_{i',i} \\, "
        "\\left(b_{i',i} - \\bar b_{i'}\\right) \\, q_{i',h}\\right) \\, W^K_{fh} + \\sum_{h=1}^{d_{v}} "
        "\\left(\\sum_{i'=1}^{n} a_{i',i} \\, u_{i',h}\\right) \\, W^V_{fh}"
    ),
    "attention.multi-head": (
        "\\frac{\\partial L}{\\partial v_{\\gamma,j,c}} = \\sum_{h=1}^{H} "
        "\\delta_{\\mathrm{group}_{h},\\gamma} \\, \\sum_{i=1}^{n} a_{hij} \\, u_{hic} \\qquad "
        "\\frac{\\partial L}{\\partial k_{\\gamma,j,e}} = \\varsigma \\, \\sum_{h=1}^{H} "
        "\\delta_{\\mathrm{group}_{h},\\gamma} \\, \\sum_{i=1}^{n} a_{hij} \\, \\left(b_{hij} - \\bar "
        "b_{hi}\\right) \\, q_{hie} \\qquad \\frac{\\partial L}{\\partial q_{hie}} = \\varsigma \\, "
        "\\sum_{j=1}^{m} a_{hij} \\, \\left(b_{hij} - \\bar b_{hi}\\right) \\, "
        "k_{\\mathrm{group}_{h},j,e}"
    ),
    "attention.saturation-bound": (
        "\\frac{\\partial L}{\\partial s_{ij}} \\le a_{ij} \\, \\left(1 - a_{ij}\\right) \\, R_{i} "
        "\\qquad -\\frac{\\partial L}{\\partial s_{ij}} \\le a_{ij} \\, \\left(1 - a_{ij}\\right) \\, "
        "R_{i}"
    ),
    "dynamics.loss-decrease": (
        "\\frac{\\partial L}{\\partial h} = -\\sum_{b=1}^{B} \\eta_{b} \\, \\sum_{r=1}^{N} "
        "{G^0_{br}}^{2}"
    ),
    "dynamics.value-step": (
        "\\sum_{j=1}^{m} a_{ij} \\, \\left({v'}_{jc} - v_{jc}\\right) = -\\eta \\, \\sum_{l=1}^{n} "
        "\\left(\\sum_{j=1}^{m} a_{ij} \\, a_{lj}\\right) \\, u_{lc} \\qquad \\sum_{r=1}^{m}\\, "
        "\\sum_{t=1}^{d_{v}} -\\frac{\\partial L}{\\partial v_{rt}} \\, \\eta \\, \\frac{\\partial "
        "L}{\\partial v_{rt}} = -\\eta \\, \\sum_{r=1}^{m}\\, \\sum_{t=1}^{d_{v}} "
        "{\\left(\\sum_{l=1}^{n} a_{lr} \\, u_{lt}\\right)}^{2}"
    ),
    "dynamics.score-step": (
        "-\\eta \\, \\frac{\\partial L}{\\partial s_{ij}} = \\eta \\, a_{ij} \\, A_{ij} \\qquad "
        "\\sum_{i=1}^{n}\\, \\sum_{j=1}^{m} -\\frac{\\partial L}{\\partial s_{ij}} \\, \\eta \\, "
        "\\frac{\\partial L}{\\partial s_{ij}} = -\\eta \\, \\sum_{i=1}^{n}\\, \\sum_{j=1}^{m} "
        "a_{ij}^{2} \\, A_{ij}^{2} \\qquad \\sum_{l=1}^{n}\\, \\sum_{k=1}^{m} \\frac{\\partial "
        "g_{ic}}{\\partial s_{lk}} \\, {\\dot s}_{lk} = \\sum_{j=1}^{m} a_{ij} \\, \\left({\\dot "
        "s}_{ij} - \\sum_{k=1}^{m} a_{ik} \\, {\\dot s}_{ik}\\right) \\, v_{jc}"
    ),
    "dynamics.feedback": (
        "{b'}_{ij} - b_{ij} = -\\eta \\, \\sum_{l=1}^{n} a_{lj} \\, \\sum_{c=1}^{d_{v}} u_{ic} \\, "
        "u_{lc} \\qquad {A'}_{ij} - A_{ij} = \\eta \\, \\left(\\sum_{l=1}^{n} a_{lj} \\, "
        "\\sum_{c=1}^{d_{v}} u_{ic} \\, u_{lc} - \\sum_{k=1}^{m} a_{ik} \\, \\sum_{l=1}^{n} a_{lk} \\, "
        "\\sum_{c=1}^{d_{v}} u_{ic} \\, u_{lc}\\right) \\qquad {A'}_{ij} - A_{ij} = \\eta \\, "
        "\\left(\\sum_{c=1}^{d_{v}} u_{ic} \\, u_{ic}\\right) \\, \\left(a_{ij} - \\sum_{k=1}^{m} "
        "a_{ik}^{2}\\right)"
    ),
    "dynamics.feedback-full": (
        "\\frac{\\partial u_{ic}}{\\partial h} = \\sum_{y=1}^{C} \\left(\\left(\\sum_{d=1}^{C} {\\dot "
        "z}_{id} \\, \\tau_{i} \\, \\left(\\delta_{d,y} \\, p_{iy} - p_{id} \\, p_{iy}\\right)\\right) "
        "\\, W^O_{cy} + r_{iy} \\, {\\dot W}_{cy}\\right) \\qquad \\frac{\\partial b_{ij}}{\\partial h} "
        "= \\sum_{c=1}^{d_{v}} \\left(u_{ic} \\, {\\dot v}_{jc} + \\frac{\\partial u_{ic}}{\\partial h} "
        "\\, v_{jc}\\right)"
    ),
    "dynamics.weight-space": (
        "\\sum_{f=1}^{d_{x}} -{x'}_{jf} \\, \\eta \\, \\frac{\\partial L}{\\partial W^V_{fc}} = -\\eta "
        "\\, \\sum_{l=1}^{m} \\left(\\sum_{f=1}^{d_{x}} {x'}_{jf} \\, {x'}_{lf}\\right) \\, "
        "\\sum_{l'=1}^{n} a_{l',l} \\, u_{l',c} \\qquad \\sum_{f=1}^{d_{x}} -{x'}_{jf} \\, \\eta \\, "
        "\\frac{\\partial L}{\\partial W^V_{fc}} = -\\eta \\, \\sum_{l=1}^{n} a_{lj} \\, u_{lc} \\qquad "
        "m \\le d_{x}"
    ),
    "dynamics.natural-routing": (
        "\\sum_{k=1}^{m} \\left(\\delta_{j,k} \\, a_{ij} - a_{ij} \\, a_{ik}\\right) \\, \\left(b_{ik} "
        "+ \\kappa \\, M_{ik}\\right) = \\frac{\\partial L}{\\partial s_{ij}} \\qquad \\frac{M_{ij} \\, "
        "e^{s_{ij} - \\eta \\, b_{ij}}}{\\sum_{k=1}^{m} M_{ik} \\, e^{s_{ik} - \\eta \\, b_{ik}}} = "
        "\\frac{a_{ij} \\, e^{-\\eta \\, b_{ij}}}{\\sum_{k=1}^{m} a_{ik} \\, e^{-\\eta \\, b_{ik}}} "
        "\\qquad \\frac{\\partial a_{j}}{\\partial h} = -a_{j} \\, \\left(b_{j} - \\bar b\\right) "
        "\\qquad \\frac{\\partial \\bar b}{\\partial h} = -\\left(\\sum_{k=1}^{m} a_{k} \\, b_{k}^{2} - "
        "\\bar b^{2}\\right)"
    ),
    "dynamics.frame-precision": (
        "\\frac{\\partial L}{\\partial s_{ij}} \\le a_{i,\\mathrm{top}_{i}} \\, \\left(1 - "
        "a_{i,\\mathrm{top}_{i}}\\right) \\, R_{i} \\qquad -\\frac{\\partial L}{\\partial s_{ij}} \\le "
        "a_{i,\\mathrm{top}_{i}} \\, \\left(1 - a_{i,\\mathrm{top}_{i}}\\right) \\, R_{i} \\qquad "
        "\\frac{\\partial L}{\\partial v_{jc}} = u_{ic} + \\sum_{l=1}^{n} \\left(1 - "
        "\\delta_{l,i}\\right) \\, a_{lj} \\, u_{lc} - \\left(1 - a_{ij}\\right) \\, u_{ic}"
    ),
    "em.fisher-identity": (
        "\\frac{\\partial l}{\\partial c_{j}} = r_{j}"
    ),
    "em.proximal-e-step": (
        "-\\frac{\\log Z}{\\eta} \\le \\sum_{j=1}^{m} S_{j} \\, a_{j} \\, b_{j} + "
        "\\frac{\\sum_{j=1}^{m} S_{j} \\, a_{j} \\, \\left(\\log a_{j} - \\log a^0_{j}\\right)}{\\eta}"
    ),
    "em.proximal-m-step": (
        "\\sum_{i=1}^{n}\\, \\sum_{j=1}^{m} a_{ij} \\, \\sum_{c=1}^{d_{v}} u_{ic} \\, v*_{jc} + "
        "\\frac{\\sum_{j=1}^{m}\\, \\sum_{c=1}^{d_{v}} {\\left(v*_{jc} - v^0_{jc}\\right)}^{2}}{2 \\, "
        "\\eta} \\le \\sum_{i=1}^{n}\\, \\sum_{j=1}^{m} a_{ij} \\, \\sum_{c=1}^{d_{v}} u_{ic} \\, "
        "v_{jc} + \\frac{\\sum_{j=1}^{m}\\, \\sum_{c=1}^{d_{v}} {\\left(v_{jc} - "
        "v^0_{jc}\\right)}^{2}}{2 \\, \\eta}"
    ),
    "em.gaussian-mixture": (
        "\\frac{M_{j} \\, e^{\\varsigma \\, \\sum_{e=1}^{d_{k}} q_{e} \\, k_{je} + \\log "
        "\\pi_{j}}}{\\sum_{j'=1}^{m} M_{j'} \\, e^{\\varsigma \\, \\sum_{e=1}^{d_{k}} q_{e} \\, "
        "k_{j',e} + \\log \\pi_{j'}}} = \\frac{M_{j} \\, \\pi_{j} \\, e^{\\tfrac{1}{2} \\, \\varsigma "
        "\\, \\sum_{e=1}^{d_{k}} k_{je}^{2}} \\, e^{-\\tfrac{1}{2} \\, \\varsigma \\, "
        "\\sum_{e=1}^{d_{k}} \\left(q_{e} - k_{je}\\right)^{2}}}{\\sum_{j'=1}^{m} M_{j'} \\, \\pi_{j'} "
        "\\, e^{\\tfrac{1}{2} \\, \\varsigma \\, \\sum_{e=1}^{d_{k}} {k_{j',e}}^{2}} \\, "
        "e^{-\\tfrac{1}{2} \\, \\varsigma \\, \\sum_{e=1}^{d_{k}} {\\left(q_{e} - "
        "k_{j',e}\\right)}^{2}}}"
    ),
    "em.not-variational": (
        "\\sum_{i=1}^{n}\\, \\sum_{y=1}^{C} -t_{iy} \\, \\log p_{iy} + \\sum_{i=1}^{n}\\, "
        "\\sum_{y=1}^{C} \\left(\\tau_{i} \\, p_{iy} - t_{iy}\\right) \\, \\left({z'}_{iy} - "
        "z_{iy}\\right) \\le \\sum_{i=1}^{n}\\, \\sum_{y=1}^{C} -t_{iy} \\, \\log {p'}_{iy} \\qquad L' "
        "< L \\quad (s = (0, 0),\\; v = (5, -3),\\; W^O = (0, 1, -1),\\; t = (1, 0, 0),\\; \\eta = 1) "
        "\\qquad L'' > L \\quad (s = (0, 0),\\; v = (5, -3),\\; W^O = (0, 1, -1),\\; t = (1, 0, 0),\\; "
        "\\eta = 1) \\qquad L''' > L \\quad (s = (0, 0),\\; v = (5, -3),\\; W^O = (0, 1, -1),\\; t = "
        "(1, 0, 0),\\; \\eta = 1)"
    ),
    "bayes.risk-decomposition": (
        "R = H + \\sum_{x=1}^{X} w_{x} \\, \\mathrm{KL}_{x}"
    ),
    "bayes.posterior-predictive": (
        "H \\le R \\qquad \\frac{\\sum_{t=1}^{\\Theta} P_{tcxy}}{\\sum_{\\theta=1}^{\\Theta}\\, "
        "\\sum_{y'=1}^{Y} P_{\\theta,c,x,y'}} = \\sum_{t=1}^{\\Theta} h_{tc} \\, f_{txy}"
    ),
    "bayes.entropy-is-blind": (
        "-\\sum_{y=1}^{K} p_{y} \\, \\log p_{y} = -\\sum_{y=1}^{K} q_{y} \\, \\log q_{y} \\quad (p = "
        "(\\tfrac{1}{3}, \\tfrac{2}{3}),\\; q = (\\tfrac{2}{3}, \\tfrac{1}{3})) \\qquad \\sum_{y=1}^{K} "
        "p_{y} \\, \\left(\\log p_{y} - \\log q_{y}\\right) = \\tfrac{1}{3} \\, \\log 2 \\quad (p = "
        "(\\tfrac{1}{3}, \\tfrac{2}{3}),\\; q = (\\tfrac{2}{3}, \\tfrac{1}{3}))"
    ),
}
