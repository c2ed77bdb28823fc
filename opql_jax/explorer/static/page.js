// Pages work without this script.

// Puts buttons before each graph that enlarge it, and lets a mouse drag it. It begins at its middle.
for (const graph of document.querySelectorAll('svg.graph')) {
  const figure = graph.parentElement, width = graph.getAttribute('width');
  let zoom = 1;
  const show = factor => {
    const [x, y] = [figure.scrollLeft + figure.clientWidth / 2, figure.scrollTop + figure.clientHeight / 2];
    const before = graph.getBoundingClientRect().width;
    zoom = Math.min(Math.max(zoom * factor, 1), 4);
    graph.style.maxWidth = zoom > 1 ? 'none' : '';
    graph.style.width = zoom > 1 ? `${Math.max(figure.clientWidth, width) * zoom}px` : '';
    const grown = graph.getBoundingClientRect().width / before;
    figure.scrollTo(x * grown - figure.clientWidth / 2, y * grown - figure.clientHeight / 2);
  };
  const buttons = document.createElement('p');
  buttons.className = 'zoom';
  for (const [sign, name, factor] of [['+', 'Enlarge', 1.4], ['−', 'Reduce', 1 / 1.4]]) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'quiet';
    button.textContent = sign;
    button.setAttribute('aria-label', name);
    button.addEventListener('click', () => show(factor));
    buttons.append(button);
  }
  figure.before(buttons);
  figure.style.maxHeight = `${Math.max(figure.clientHeight, 320)}px`;
  figure.scrollLeft = (figure.scrollWidth - figure.clientWidth) / 2;
  let moved = 0;
  figure.addEventListener('pointerdown', () => { moved = 0; });
  figure.addEventListener('pointermove', event => {
    if (event.buttons !== 1 || event.pointerType !== 'mouse') return;
    moved += Math.abs(event.movementX) + Math.abs(event.movementY);
    figure.scrollBy(-event.movementX, -event.movementY);
  });
  // What was dragged is not followed.
  figure.addEventListener('click', event => { if (moved > 5) event.preventDefault(); }, true);
  graph.addEventListener('dragstart', event => event.preventDefault());
}
