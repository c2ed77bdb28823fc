"""A story, the wiki of a company and abstracts in the manner of medicine, all invented, and questions about each."""

from trios import Asked, Trio

STORY = Trio(
    {
        'The Lamp at Corrin Head': (
            'Nora Tallis grew up in Corrin, a fishing village on the coast of Wendale. Her father was Edmund Tallis. Edmund Tallis kept the'
            ' lighthouse at Corrin Head for thirty years. He had been born in Ostermouth, a port in the north. Her mother, Ruth Calloway,'
            ' taught at the school of the village. Ruth Calloway came from Lindle. The winters were long. In the evenings the family sat'
            ' by the stove and listened to the wind.'
            ' When Nora was nine, a ship called the Marigold was wrecked below the cliffs. The captain of the Marigold was Silas Venn.'
            ' Silas Venn swam ashore with a boy on his back. The boy was called Peter Oake. Nobody knew where he had come from. Edmund'
            ' carried both of them up the stairs of the lighthouse. Silas Venn stayed in Corrin until the spring, and then he sailed to'
            ' Port Sable. The boy remained. He was adopted by Agnes Thorne. Agnes Thorne owned the Herring Inn. She was a widow, and she'
            ' was glad of the company.'
        ),
        'The School of Charts': (
            'Nora and Peter learned to read maps together. They drew the bay, and the rocks, and the channel that the Marigold had missed.'
            ' At sixteen Nora left for Ostermouth. There she studied at the Hallam Institute under Professor Ivo Marsh. Ivo Marsh was the'
            ' author of The Book of Tides. He was an impatient man. He disliked the sea, and he was afraid of boats. Still, he saw at once'
            ' that she drew better than he did.'
            ' Peter Oake went to Port Sable to look for the captain. He found him in a tavern. Silas Venn told him that the Marigold had been'
            ' built in Grenholm by a man called Tobias Reed. He gave the boy a compass. Peter sold his coat and travelled to Grenholm. It'
            ' rained all the way. Tobias Reed was old, and he was nearly blind. He remembered the ship well. He offered the boy work. Peter'
            ' stayed for two years and learned how ships are made.'
        ),
        'The Return of the Marigold': (
            'In 1874 Nora Tallis published her chart of the coast. It was printed by Quill and Sons. The pilots of Ostermouth bought every'
            ' copy in a week. A letter arrived from Grenholm. Peter had built a ship, and it was named the Second Marigold. He asked her to'
            ' sail in it. She said yes before she had read to the end.'
            ' They left in May. The sea was calm. Nora stood at the bow with her chart, and Peter stood at the wheel. On the third day'
            ' they saw the lamp at Corrin Head. Her father was waiting on the rocks. Agnes Thorne had closed the Herring Inn for the day.'
            ' Everybody from the village stood on the shore. Nora Tallis married Peter Oake in Lindle the following summer. Silas Venn came to'
            ' the wedding and danced until the morning.'
        ),
    },
    (
        Asked('Who was the captain of the Marigold?', 'Silas Venn', 'captain of the Marigold'),
        Asked('Who adopted Peter Oake?', 'Agnes Thorne', 'adopted by Agnes Thorne'),
        Asked('Who wrote The Book of Tides?', 'Ivo Marsh', 'author of The Book of Tides'),
        Asked('Where was the father of Nora Tallis born?', 'Ostermouth', 'born in Ostermouth'),
        Asked('Where did the mother of Nora Tallis come from?', 'Lindle', 'came from Lindle'),
        Asked('What does the woman who adopted Peter Oake own?', 'Herring Inn', 'owned the Herring Inn'),
        Asked('Who did Nora Tallis marry?', 'Peter Oake', 'married Peter Oake'),
    ),
)

WIKI = Trio(
    {
        'Bramwell Instruments': 'Bramwell Instruments is a company that makes sensors. It was founded by Leonie Bramwell in 2003. The head office'
        ' is in Tarnby. The chief executive is Oskar Lund.',
        'Leonie Bramwell': 'Leonie Bramwell is a physicist. She studied at the University of Vessen. She left the company in 2019 and lives in'
        ' Kaldvik.',
        'Oskar Lund': 'Oskar Lund has led Bramwell Instruments since 2019. He was born in Marrow Bay. Before, he worked for Delphane Energy.',
        'Pellucid': 'Pellucid is a water sensor that was developed by the Clearwater Team. It was released in 2016.',
        'Clearwater Team': 'The Clearwater Team is a group of eight engineers. Its leader is Mirja Holt, and it works in the Sund Building.',
        'Mirja Holt': 'Mirja Holt is an engineer. She joined in 2011 and studied at Norrvik College.',
        'Sund Building': 'The Sund Building is an office building in Tarnby. It was designed by the architect Pia Westergaard.',
        'Harrier': 'Harrier is the billing system. It was written by Tomas Okafor, and it runs on the Gannet cluster.',
        'Gannet': 'Gannet is a cluster of forty machines in Eskdale. It is maintained by the Platform Team.',
        'Platform Team': 'The Platform Team keeps the machines running. Its leader is Grace Adeyemi.',
        'Tomas Okafor': 'Tomas Okafor is a programmer. He works for the Finance Team and lives in Tarnby.',
        'Delphane Energy': 'Delphane Energy is a power company in Holmstad. In 2021 it bought nine hundred Pellucid sensors.',
    },
    (
        Asked('Who founded Bramwell Instruments?', 'Leonie Bramwell', 'founded by Leonie Bramwell'),
        Asked('Who wrote Harrier?', 'Tomas Okafor', 'written by Tomas Okafor'),
        Asked('Who designed the Sund Building?', 'Pia Westergaard', 'designed by the architect'),
        Asked('Where did the founder of Bramwell Instruments study?', 'University of Vessen', 'studied at'),
        Asked('Where was the chief executive of Bramwell Instruments born?', 'Marrow Bay', 'born in Marrow Bay'),
        Asked('Who is the leader of the team that developed Pellucid?', 'Mirja Holt', 'leader is Mirja Holt'),
        Asked('When was Pellucid released?', '2016', 'released in 2016'),
    ),
)

ABSTRACTS = Trio(
    {
        'Veltramine in Karsk fever': 'Karsk fever is an infection of the liver. It is caused by Borvella tarsi. We treated 120 patients with'
        ' Veltramine. Fever ended after four days. The trial was funded by the Ansgar Foundation.',
        'Borvella tarsi': 'Borvella tarsi is a bacterium that was discovered by Hanne Lauritz in 1962. It is carried by the Marsh Tick.',
        'Hanne Lauritz': 'Hanne Lauritz was a microbiologist. She worked at the Sorrel Institute and died in Vessen in 1994.',
        'Marsh Tick': 'The Marsh Tick lives in the wetlands of Ardmoor. Its bite is painless.',
        'Veltramine': 'Veltramine is an antibiotic that is made by Corvane Pharma. It blocks the enzyme Tarsinase.',
        'Corvane Pharma': 'Corvane Pharma is a drug company. Its head office is in Lowenholt.',
        'Ostrel syndrome': 'Ostrel syndrome is a disorder of the nerves. It was first described by Jonas Ostrel in 1931. It is caused by a mutation'
        ' of the gene KLT4.',
        'Jonas Ostrel': 'Jonas Ostrel was a physician. He was born in Brannfeld, and he led the Mercy Hospital of Vessen.',
        'Imparel in Ostrel syndrome': 'Ostrel syndrome is treated with Imparel. Of 48 patients, 31 walked without help. Nausea was the commonest'
        ' side effect.',
        'Imparel': 'Imparel is a peptide that was developed by Runa Sel at the Sorrel Institute. It was approved in 2015.',
        'Runa Sel': 'Runa Sel is a chemist. She won the Hallgrim Prize in 2018.',
        'Sorrel Institute': 'The Sorrel Institute is a research centre in Vessen. Its director is Aldo Brenn.',
    },
    (
        Asked('What causes Karsk fever?', 'Borvella tarsi', 'caused by Borvella tarsi'),
        Asked('Who discovered Borvella tarsi?', 'Hanne Lauritz', 'discovered by Hanne Lauritz'),
        Asked('Where was the physician who described Ostrel syndrome born?', 'Brannfeld', 'born in Brannfeld'),
        Asked('Where is the head office of the company that makes Veltramine?', 'Lowenholt', 'head office is in Lowenholt'),
        Asked('Which prize did the developer of Imparel win?', 'Hallgrim Prize', 'won the Hallgrim Prize'),
        Asked('Who is the director of the Sorrel Institute?', 'Aldo Brenn', 'director is Aldo Brenn'),
    ),
)
