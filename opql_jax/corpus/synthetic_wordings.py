"""How questions about the synthetic world are worded.

The keys are gold chains: relations to follow from the topic, `^-1` for one followed from object to subject,
`>` between hops. `{x}` is the place of the topic. Cities and universities only end a chain, because too many
facts meet in them; only the one-answer question for a city's country starts from one.
"""

# Wordings of train, dev and test.
WORDINGS = {
    # 1 hop, from subject to object.
    'directed_by': (
        'who directed {x}', 'who was the director of {x}', '{x} was directed by whom',
        'which person directed {x}', 'what is the name of the director of {x}',
        'can you tell me who directed {x}', 'under whose direction was {x} shot'),
    'written_by': (
        'who wrote the screenplay of {x}', 'who was the screenwriter of {x}', '{x} was written by whom',
        'which person wrote the script for {x}', 'name the writer of {x}', 'can you tell me who wrote the film {x}',
        'whose script was {x} made from'),
    'starring': (
        'who starred in {x}', 'which actors appeared in {x}', 'who acted in {x}', 'name the cast of {x}',
        'who played the leading roles in {x}', 'what are the names of the actors in {x}', '{x} starred whom'),
    'produced_by': (
        'which studio produced {x}', 'who produced {x}', '{x} was produced by which company',
        'name the studio behind {x}', 'which company financed the production of {x}',
        'can you tell me which studio made {x}'),
    'filmed_in': (
        'where was {x} filmed', 'in which city was {x} filmed', 'what was the location of {x}',
        'which city served as the location for {x}', 'where did the filming of {x} take place',
        'name the city where {x} was shot'),
    'based_on': (
        'which book was {x} based on', 'what was the source of the story of {x}',
        '{x} was an adaptation of which book', 'name the book that was adapted into {x}',
        'which novel was {x} adapted from', 'on the pages of which book is {x} based'),
    'authored_by': (
        'who was the author of {x}', 'who penned {x}', 'name the author of the book {x}',
        '{x} was penned by whom', 'which novelist published {x}', 'what is the name of the author of {x}'),
    'born_in': (
        'where was {x} born', 'in which city was {x} born', 'what is the birthplace of {x}',
        'name the birthplace of {x}', 'which city was the birthplace of {x}', '{x} was born where',
        'in what place did {x} come into the world'),
    'educated_at': (
        'where did {x} study', 'which university educated {x}', '{x} graduated from which university',
        'name the university that gave {x} a degree', 'at which university was {x} a student',
        'where was {x} educated', 'what university did {x} graduate from'),
    'married_to': (
        'who is {x} married to', 'who was the spouse of {x}', 'name the spouse of {x}', 'who married {x}',
        '{x} was the husband or wife of whom', 'which person is {x} married to'),
    'works_for': (
        'which company did {x} work for', 'who employed {x}', 'what is the employer of {x}',
        '{x} was an employee of which company', 'where did {x} hold a job', 'name the company that hired {x}'),
    'founded_by': (
        'who founded {x}', 'who was the founder of {x}', '{x} was founded by whom', 'which person established {x}',
        'name the founder of {x}', 'can you tell me who started the company {x}'),
    'headquartered_in': (
        'where are the headquarters of {x}', 'in which city is {x} headquartered',
        'which city is home to the headquarters of {x}', 'where is the main office of {x}',
        'name the city of the head office of {x}', '{x} is headquartered in which city'),
    'located_in': (
        'in which country is {x}', 'which country is {x} located in', '{x} is a city in which country',
        'name the country of the city {x}', 'what country does {x} belong to',
        'within the borders of which country is {x}'),
    # 1 hop, from object to subject.
    'directed_by^-1': (
        'which films did {x} direct', 'which films were directed by {x}', 'what did {x} direct',
        'name the films that {x} directed', '{x} was the director of which films', 'what films had {x} as director'),
    'written_by^-1': (
        'which films did {x} write', 'which films were written by {x}', 'for which films did {x} write the screenplay',
        'name the films that {x} wrote', '{x} was the screenwriter of which films', 'which scripts came from {x}'),
    'starring^-1': (
        'which films did {x} star in', 'which films starred {x}', 'what did {x} act in',
        'name the films that {x} appeared in', '{x} was in the cast of which films',
        'in which films did {x} play a leading role'),
    'produced_by^-1': (
        'which films did {x} produce', 'which films were produced by {x}', 'name the films that {x} produced',
        '{x} was the studio behind which films', 'what came out of the studio of {x}',
        'what films did {x} pay for'),
    'based_on^-1': (
        'which film was based on {x}', '{x} was adapted into which film', 'name the film adaptation of {x}',
        'what film took its story from {x}', 'as which film was {x} adapted for the screen',
        'which film brought {x} to the screen'),
    'authored_by^-1': (
        'which books did {x} pen', 'which books were penned by {x}', 'name the books of the author {x}',
        '{x} was the author of which books', 'what books did {x} publish', 'which books had {x} as author'),
    'works_for^-1': (
        'who worked for {x}', 'who was employed by {x}', 'name the employees of {x}', 'whom did {x} employ',
        'who held a job at {x}', 'which people were on the staff of {x}'),
    'founded_by^-1': (
        'which company did {x} found', 'which company was founded by {x}', 'name the company that {x} founded',
        '{x} was the founder of which company', 'what company did {x} start', 'which firm was established by {x}'),

    # 2 hops.
    'directed_by>directed_by^-1': (
        'which films share a director with {x}', 'what other films did the director of {x} direct',
        'name other films directed by the director of {x}', 'the person who directed {x} also directed which films',
        'which films have the same director as {x}'),
    'starring>starring^-1': (
        'which films share an actor with {x}', 'what other films did the actors in {x} appear in',
        'name other films starring the cast of {x}', 'the people who starred in {x} also acted in which films',
        'which films have the same actors as {x}'),
    'directed_by^-1>starring': (
        'who starred in the films directed by {x}', 'which actors appeared in the films that {x} directed',
        'name the cast of the films whose director was {x}', 'who acted in films {x} was the director of',
        'what actors did {x} direct'),
    'starring^-1>directed_by': (
        'who directed the films starring {x}', 'who were the directors of the films that {x} acted in',
        'name the directors of the films {x} appeared in', 'which people directed films with {x} in the cast',
        'the films starring {x} were directed by whom'),
    'directed_by>born_in': (
        'where was the director of {x} born', 'what is the birthplace of the person who directed {x}',
        'in which city was the director of {x} born', 'name the birthplace of the director of {x}',
        'the director of {x} was born where'),
    'written_by>married_to': (
        'who is the screenwriter of {x} married to', 'who was the spouse of the person who wrote the film {x}',
        'name the spouse of the screenwriter of {x}', 'the writer of the film {x} married whom',
        'which person married the writer of the screenplay of {x}'),
    'produced_by>headquartered_in': (
        'where are the headquarters of the studio that produced {x}',
        'in which city is the company that produced {x} headquartered',
        'name the city of the head office of the studio behind {x}',
        'where is the main office of the company that produced {x}',
        'which city is home to the studio that produced {x}'),
    'based_on>authored_by': (
        'who was the author of the book that {x} was based on', 'who penned the source of the story of {x}',
        'name the author of the book adapted into {x}', '{x} was an adaptation of a book by which author',
        'which novelist published the book that became the film {x}'),
    'authored_by>authored_by^-1': (
        'which books share an author with {x}', 'what other books did the author of {x} publish',
        'name other books penned by the author of {x}', 'the author of {x} was also the author of which books',
        'which books have the same author as {x}'),
    'founded_by>educated_at': (
        'where did the founder of {x} study', 'which university educated the founder of {x}',
        'name the university of the person who founded {x}',
        'the founder of {x} graduated from which university', 'where was the person who established {x} educated'),
    'starring^-1>filmed_in': (
        'where were the films starring {x} filmed', 'in which cities were the films with {x} in the cast filmed',
        'name the locations of the films that {x} appeared in', 'what were the locations of the films starring {x}',
        'which cities served as the location for films {x} acted in'),
    'married_to>works_for': (
        'which company did the spouse of {x} work for', 'who employed the spouse of {x}',
        'what is the employer of the person married to {x}', 'name the company that hired the spouse of {x}',
        'where did the husband or wife of {x} hold a job'),

    # 3 hops.
    'directed_by>directed_by^-1>starring': (
        'who starred in the other films of the director of {x}',
        'which actors appeared in the films that share a director with {x}',
        'name the cast of the other films directed by the director of {x}',
        'who acted in the films that have the same director as {x}'),
    'starring>starring^-1>directed_by': (
        'who directed the other films of the actors in {x}',
        'who were the directors of the films that share an actor with {x}',
        'name the directors of the other films starring the cast of {x}',
        'the films that have the same actors as {x} were directed by whom'),
    'directed_by>directed_by^-1>produced_by': (
        'which studio produced the other films of the director of {x}',
        'which companies produced the films that share a director with {x}',
        'name the studios behind the other films directed by the director of {x}',
        'the films that have the same director as {x} were produced by which company'),
    'written_by>written_by^-1>directed_by': (
        'who directed the other films of the screenwriter of {x}',
        'who were the directors of the films that share a screenwriter with {x}',
        'name the directors of the other films written by the screenwriter of {x}',
        'the films that have the same screenwriter as {x} were directed by whom'),
    'starring^-1>directed_by>born_in': (
        'where were the directors of the films starring {x} born',
        'what are the birthplaces of the people who directed the films starring {x}',
        'in which cities were the directors of films that {x} acted in born',
        'name the birthplaces of the directors of the films {x} appeared in'),
    'directed_by^-1>based_on>authored_by': (
        'who were the authors of the books that the films directed by {x} were based on',
        'name the authors of the books behind the films of the director {x}',
        'who penned the books that {x} adapted as director',
        'the films that {x} directed were adaptations of books by which authors'),
    'based_on^-1>directed_by>married_to': (
        'who is the director of the film based on {x} married to',
        'name the spouse of the director of the film adaptation of {x}',
        'who was the spouse of the person who directed the adaptation of {x}',
        'the director who brought {x} to the screen married whom'),
    'based_on>authored_by>authored_by^-1': (
        'which books share an author with the book that {x} was based on',
        'what other books did the author of the book behind the film {x} publish',
        'name other books penned by the author of the book adapted into {x}',
        'the author of the source of the story of {x} was also the author of which books'),
    'produced_by>founded_by>born_in': (
        'where was the founder of the studio that produced {x} born',
        'what is the birthplace of the founder of the company that produced {x}',
        'in which city was the person who founded the studio behind {x} born',
        'name the birthplace of the founder of the studio that made {x}'),
    'married_to>works_for>headquartered_in': (
        'where are the headquarters of the company that the spouse of {x} worked for',
        'in which city is the employer of the spouse of {x} headquartered',
        'name the city of the head office of the company that employed the spouse of {x}',
        'where is the main office of the employer of the person married to {x}'),
}

# 1-hop wordings that no other split uses, made of words that the corpus or other questions use.
UNSEEN_WORDINGS = {
    'directed_by': ('name the person who directed {x}', 'the director of {x} was which person'),
    'written_by': ('what is the name of the screenwriter of {x}', 'name the person who wrote the script of {x}'),
    'starring': ('can you tell me who acted in {x}', 'which people played a leading role in {x}'),
    'produced_by': ('name the company that produced {x}', 'which studio was behind the production of {x}'),
    'filmed_in': ('what is the name of the city where {x} was filmed', '{x} was filmed in which city'),
    'based_on': ('name the book that {x} was based on', 'what novel was the source of {x}'),
    'authored_by': ('which person was the author of {x}', 'can you tell me who penned {x}'),
    'born_in': ('name the city where {x} was born', 'can you tell me where {x} was born'),
    'educated_at': ('name the university where {x} studied', 'which university gave a degree to {x}'),
    'married_to': ('what is the name of the spouse of {x}', '{x} was married to whom'),
    'works_for': ('name the employer of {x}', 'which company employed {x}'),
    'founded_by': ('what is the name of the founder of {x}', 'name the person who founded {x}'),
    'headquartered_in': ('name the city where {x} is headquartered', 'in which city is the main office of {x}'),
    'located_in': ('what is the name of the country of {x}', '{x} is located in which country'),
    'directed_by^-1': ('name the films directed by {x}', 'can you tell me which films {x} directed'),
    'written_by^-1': ('name the films written by {x}', 'can you tell me which films {x} wrote'),
    'starring^-1': ('name the films starring {x}', 'which films had {x} in the cast'),
    'produced_by^-1': ('name the films produced by {x}', 'can you tell me which films {x} produced'),
    'based_on^-1': ('name the film based on {x}', 'which film was an adaptation of {x}'),
    'authored_by^-1': ('name the books penned by {x}', 'what books did the author {x} pen'),
    'works_for^-1': ('name the people employed by {x}', 'who were the employees of {x}'),
    'founded_by^-1': ('name the company founded by {x}', 'what company was established by {x}'),
}
